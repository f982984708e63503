"""Sends a call of a network to an engine of its group, and updates what routing policies see of the engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import part
from evenstep.routing.view import CLASS, ID, KEY, KV_FREE, LOAD, QUEUED, QUEUED_LOAD, RUNNING, SINCE_S, STEPS, WAITING_LOAD
from evenstep.sim.engine.model import RUNNING as GOES_ON
from evenstep.sim.network.model import BAD_ROUTE, FCFS, LEAST_ATTAINED, OLDEST_TASK, ROUTE_RAISED, Net
from evenstep.sim.network.times import set_due

#: An engine reserves this many consecutive places in the table of requests at a time.
BLOCK = 64
#: Width of the range of keys of one priority; lower priorities have higher ranges.
_CLASS = float(1 << 44)


@part
def send(routes: Any, net: Net, row: int, now_s: float) -> int:
    """Send the call in `row`, released at `now_s`, to an engine of its group, where it waits.

    If the group has several engines, `choose` picks one. An engine without a batch under way becomes due now. Returns
    `GOES_ON`; `BAD_ROUTE` if the routing policy gave no engine of the group; `ROUTE_RAISED` if it raised. The caller has
    checked that the engine's lists have room.
    """
    call = net.calls[row]
    group = net.groups[call.group]
    e = 0
    if group.count > 1:
        e = choose(routes, net, call.group, row, now_s)
        if e < 0 or e >= group.count:
            net.clock.detail = row
            net.clock.group = call.group
            return ROUTE_RAISED if net.clock.raised == 1 else BAD_ROUTE
    e += group.first
    site, now = net.sites[e], net.now[e]
    if site.next_place % BLOCK == 0:
        site.next_place = net.clock.next_block
        net.clock.next_block += BLOCK
    at = site.next_place
    site.next_place += 1
    net.call_of[at] = row
    request = net.requests.shown[at]
    request.request_id, request.request_class = call.request_id, call.request_class
    request.prompt_tokens, request.output_low, request.output_high = call.prompt_tokens, call.output_low, call.output_high
    net.requests.hidden[at].output_tokens = call.output_tokens
    net.requests.arrival_s[at] = now_s
    if net.clock.order != FCFS:  # else the engine computes the key
        net.requests.noted[at].key = key_of(net, row)
    net.lists.coming[e, now.known] = at
    now.known += 1
    net.clock.most = max(net.clock.most, now.known)
    site.work += call.work
    site.prompt_tokens += request.prompt_tokens
    show_waiting(net, e)
    if site.formed == 0:
        set_due(net, e, now_s)
        net.clock.low, net.clock.high = min(net.clock.low, e), max(net.clock.high, e)
    return GOES_ON


@part
def key_of(net: Net, row: int) -> float:
    """The key by which the call in `row` waits: its priority, then the network's order. The smallest key goes first."""
    nodes, order = net.nodes, net.clock.order
    key = nodes.key[row]
    if order == OLDEST_TASK:
        key = float(nodes.task[row])
    elif order == LEAST_ATTAINED:
        key = float(net.attained[nodes.task[row]])
    return nodes.rank[row] * _CLASS + key


@part
def choose(routes: Any, net: Net, g: int, row: int, now_s: float) -> int:
    """Ask the routing policy of group g for an engine for the call in `row`.

    Returns the engine, counted from 0 within the group, not checked; -1 if the policy raised an error or chose no engine.
    """
    group, ends, routing, flat = net.groups[g], net.groups[g + 1], net.routing, net.route_flat
    n = group.count
    ints = routing.workers_i[group.workers : group.workers + 4 * n].reshape((4, n))
    floats = routing.workers_f[group.workers : group.workers + 4 * n].reshape((4, n))
    call = net.calls[row]
    need = float(call.prompt_tokens)
    if group.capacity < np.inf:
        for i in range(n):
            left = group.capacity - floats[LOAD, i]
            floats[KV_FREE, i] = max(left - queued_tokens(net, group.first + i), need)
            if group.reads_usage == 1:  # to this policy an engine's memory is the sum of load, queued_load and kv_free
                floats[QUEUED_LOAD, i] = left - floats[KV_FREE, i]
    routing.waiting_i[ID, 0], routing.waiting_i[CLASS, 0] = call.request_id, call.request_class
    routing.waiting_i[KEY, 0] = call.affinity
    routing.waiting_f[WAITING_LOAD, 0], routing.waiting_f[SINCE_S, 0] = need, now_s
    routing.waiting_f[STEPS, 0] = np.nan
    routing.worker[0] = -1
    net.clock.group = g
    routes[group.policy](
        group.decisions,
        net.clock.seed,
        now_s,
        0.0,
        0,
        1,
        ints,
        floats,
        routing.waiting_i,
        routing.waiting_f,
        routing.projections[:n],
        routing.growth,
        routing.nothing,
        flat.memory[group.memory : ends.memory],
        flat.parameters[group.parameters : ends.parameters],
        flat.scratch_i[group.scratch_i : ends.scratch_i],
        flat.scratch_f[group.scratch_f : ends.scratch_f],
        routing.worker,
    )
    group.decisions += 1
    return routing.worker[0] if net.clock.raised == 0 else -1


@part
def show(net: Net, e: int) -> None:
    """Write engine e's running calls, KV tokens held and waiting calls into `Net.routing`, unless it is a single engine."""
    group, now = net.groups[net.sites[e].group], net.now[e]
    if group.count > 1:
        place = group.workers + e - group.first
        net.routing.workers_i[place + RUNNING * group.count] = now.running
        net.routing.workers_f[place + LOAD * group.count] = float(net.fixed[e].kv_capacity - now.kv_free)
        show_waiting(net, e)


@part
def show_waiting(net: Net, e: int) -> None:
    """Write number and tokens of engine e's calls, queued or just sent, into `Net.routing`, unless it is a single engine."""
    site, now = net.sites[e], net.now[e]
    group = net.groups[site.group]
    place = group.workers + e - group.first
    if group.count > 1:
        net.routing.workers_i[place + QUEUED * group.count] = now.waiting + now.known - now.coming
        net.routing.workers_f[place + QUEUED_LOAD * group.count] = queued_tokens(net, e)


@part
def queued_tokens(net: Net, e: int) -> float:
    """Prompt and produced tokens of engine e's calls, queued or just sent."""
    return float(net.sites[e].prompt_tokens - net.now[e].taken_tokens)
