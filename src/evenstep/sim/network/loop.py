"""The compiled loop of a network of engines: one clock, every engine at its own pace.

Order of events at one moment:

1. batches that end now have run their tokens, and calls that are done release those that waited for them;
2. calls whose time has come, of new tasks or released, go to an engine of their group, in order of time and row;
3. every engine without a batch under way forms one, as a single engine does (`sim.engine`).

The clock then goes to the earliest of the next batch's end, the next release, and the next time a policy asks for.

Engines that share no tasks, directly or through others, cannot reach each other. Such islands run one after the other, each
on its own clock, because an engine's data then stay in the processor's caches. No call is changed by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import BATCH_TYPE, ROUTE_TYPE, declared, inlined, part, several, signature
from evenstep.cost.batch_seconds import seconds_of
from evenstep.routing.view import (
    CLASS,
    ID,
    KEY,
    KV_FREE,
    LOAD,
    QUEUED,
    QUEUED_LOAD,
    RUNNING,
    SINCE_S,
    STEPS,
    WAITING_LOAD,
)
from evenstep.scheduling.view import PICKED
from evenstep.sim.engine.batch import run_batch
from evenstep.sim.engine.loop import iterate
from evenstep.sim.engine.model import DONE, HAS_FORMED, HAS_NONE, HOLDS_FOR_EVER, STOPPED, Lists, Policy, Run
from evenstep.sim.engine.model import RUNNING as GOES_ON
from evenstep.sim.network.model import (
    BAD_ROUTE,
    FCFS,
    LEAST_ATTAINED,
    LISTS_FULL,
    OLDEST_TASK,
    ROUTE_RAISED,
    Net,
)

#: Different policies that a network may have inside its engines, and in front of them.
MOST_POLICIES = 8
#: Consecutive places in the table of requests that an engine takes at once.
BLOCK = 64
#: Keys of one priority; a lower priority's lie above all of them.
_CLASS = float(1 << 44)


@inlined
def run_of(net: Net, e: int) -> Run:
    """One engine's state in the form that its own loop takes: windows, not copies."""
    site, ends, lists, small, flat = net.sites[e], net.sites[e + 1], net.lists, net.small, net.flat
    policy = Policy(
        small.order[e],
        small.limits[e],
        small.counts[e],
        small.arrived[e],
        flat.memory[site.memory : ends.memory],
        flat.parameters[site.parameters : ends.parameters],
        flat.scratch_i[site.scratch_i : ends.scratch_i],
        flat.scratch_f[site.scratch_f : ends.scratch_f],
        lists.picked[2 * e : 2 * e + 2],
        lists.evicted[e],
    )
    return Run(
        net.fixed[e],
        net.now[e],
        net.requests,
        Lists(lists.coming[e], lists.running[e], lists.waiting[e], lists.finished[e]),
        net.kept[site.kept : ends.kept],  # type: ignore[arg-type]
        policy,
        small.batch[e],
        net.laws[site.law : ends.law],
        small.gaps[e],
        net.table,
    )


@part
def is_before(net: Net, i: int, j: int) -> bool:
    """Whether entry i of the heap comes before entry j."""
    one_s, other_s = net.heap_s[i], net.heap_s[j]
    return one_s < other_s or (one_s == other_s and net.heap_row[i] < net.heap_row[j])


@part
def swap(net: Net, i: int, j: int) -> None:
    """Exchange two entries of the heap of released calls."""
    net.heap_s[i], net.heap_s[j] = net.heap_s[j], net.heap_s[i]
    net.heap_row[i], net.heap_row[j] = net.heap_row[j], net.heap_row[i]


@part
def push(net: Net, at_s: float, row: int) -> None:
    """Add a call to the heap of released calls."""
    at = net.clock.heap
    net.clock.heap += 1
    net.heap_s[at], net.heap_row[at] = at_s, row
    while at > 0 and is_before(net, at, (at - 1) >> 1):
        swap(net, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@part
def pop(net: Net) -> None:
    """Remove the first call from the heap of released calls."""
    net.clock.heap -= 1
    end, at = net.clock.heap, 0
    swap(net, 0, end)
    while 2 * at + 1 < end:
        child = 2 * at + 1
        if child + 1 < end and is_before(net, child + 1, child):
            child += 1
        if not is_before(net, child, at):
            break
        swap(net, child, at)
        at = child


@part
def next_release_s(net: Net) -> float:
    """When the next call is sent to an engine, in seconds; inf if none will be."""
    at_s = np.inf
    if net.clock.coming < net.clock.last_root:
        at_s = net.root_s[net.clock.coming]
    if net.clock.heap > 0:
        at_s = min(at_s, net.heap_s[0])
    return at_s


@part
def due_s(net: Net, e: int) -> float:
    """When an engine's batch ends, or when its policy wants to be asked again, in seconds."""
    clock = net.clock
    return net.due_s[clock.tree + clock.leaves + e - clock.first]


@part
def set_due(net: Net, e: int, at_s: float) -> None:
    """Change `due_s` of an engine, and the minima it is part of."""
    tree, at = net.clock.tree, net.clock.leaves + e - net.clock.first
    net.due_s[tree + at] = at_s
    while at > 1:
        at >>= 1
        net.due_s[tree + at] = min(net.due_s[tree + 2 * at], net.due_s[tree + 2 * at + 1])


@part
def next_s(net: Net) -> float:
    """The time of the next event, in seconds; inf without one. Sets `low` and `high`, the engines it may concern."""
    clock = net.clock
    release_s, at_s = next_release_s(net), net.due_s[clock.tree + 1]
    clock.low, clock.high = clock.last, -1
    if release_s < at_s:
        return release_s
    if at_s < np.inf:
        low, high = 1, 1
        while low < clock.leaves:
            low, high = 2 * low, 2 * high + 1
            if net.due_s[clock.tree + low] != at_s:
                low += 1
            if net.due_s[clock.tree + high] != at_s:
                high -= 1
        clock.low, clock.high = clock.first + low - clock.leaves, clock.first + high - clock.leaves
    return at_s


@part
def look(net: Net, before_s: float) -> None:
    """Record the engines' requests and tokens at every sampling time up to `before_s`."""
    clock, samples = net.clock, net.samples
    while clock.samples < samples.tokens.shape[0] and clock.sample_s <= before_s:
        for e in range(clock.first, clock.last):
            now = net.now[e]
            site = net.sites[e]
            samples.requests[clock.samples, e] = now.known - site.finished
            samples.tokens[clock.samples, e] = site.work + now.wasted_tokens - site.ran
        clock.samples += 1
        clock.sample_s += clock.every_s


@part
def end_batches(net: Net, now_s: float) -> None:
    """End the batches that are due: event 1 of this module's docstring."""
    for e in range(net.clock.low, net.clock.high + 1):
        if due_s(net, e) <= now_s and net.sites[e].formed == 1:
            end_batch(net, e, now_s)


@part
def end_batch(net: Net, e: int, now_s: float) -> None:
    """End an engine's batch: its tokens become known to the network, and calls that are done release others."""
    site, now = net.sites[e], net.now[e]
    for i in range(site.finished, now.finished):
        end_call(net, int(net.call_of[net.lists.finished[e, i]]), now_s)
    site.formed, site.finished, site.ran = 0, now.finished, now.prefill_tokens + now.decode_tokens
    show(net, e)


@part
def end_call(net: Net, row: int, now_s: float) -> None:
    """Note the end of a call, and release the calls that waited only for it."""
    call = net.calls[row]
    net.attained[call.task] += call.work
    for i in range(call.children, net.calls[row + 1].children):
        child = net.children[i]
        net.calls[child].pending -= 1
        if net.calls[child].pending == 0:
            push(net, now_s + net.calls[child].delay_s, child)


@part
def release(routes: Any, net: Net, now_s: float) -> int:
    """Send the calls that are due to their engines: event 2 of this module's docstring.

    Returns:
        `GOES_ON`, `LISTS_FULL`, or the code of a routing policy's mistake.
    """
    clock = net.clock
    while clock.most < net.lists.coming.shape[1]:
        is_root = clock.coming < clock.last_root and net.root_s[clock.coming] <= now_s
        if is_root and clock.heap > 0:
            root_s = net.root_s[clock.coming]
            is_root = root_s < net.heap_s[0] or (root_s == net.heap_s[0] and net.roots[clock.coming] < net.heap_row[0])
        if is_root:
            row = net.roots[clock.coming]
            clock.coming += 1
        elif clock.heap > 0 and net.heap_s[0] <= now_s:
            row = net.heap_row[0]
            pop(net)
        else:
            return GOES_ON
        code = send(routes, net, row, now_s)
        if code != GOES_ON:
            return code
    return LISTS_FULL


@part
def send(routes: Any, net: Net, row: int, now_s: float) -> int:
    """Send a call to an engine of its group, where it waits.

    Returns:
        `GOES_ON`, or the code of the routing policy's mistake.
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
    site, now, at = net.sites[e], net.now[e], place_for(net, e)
    call.engine, net.call_of[at] = e, row
    for word in range(net.given.table.shape[1]):
        net.requests.table[at, word] = net.given.table[row, word]
    net.requests.hidden[at].output_tokens = net.given.hidden[row].output_tokens
    net.requests.arrival_s[at] = now_s
    request = net.requests.shown[at]
    request.request_class = call.request_class
    if group.is_keyed == 1:
        net.requests.hidden[at].key = key_of(net, row)
    net.lists.coming[e, now.known] = at
    now.known += 1
    net.clock.most = max(net.clock.most, now.known)
    net.clock.released += 1
    site.work += call.work
    site.waiting_tokens += request.prompt_tokens
    show_waiting(net, e)
    if site.formed == 0:
        set_due(net, e, now_s)
        net.clock.low, net.clock.high = min(net.clock.low, e), max(net.clock.high, e)
    return GOES_ON


@part
def place_for(net: Net, e: int) -> int:
    """The place in the table of requests for the next call of an engine: the calls of an engine stand together."""
    site = net.sites[e]
    if site.next_place % BLOCK == 0:
        site.next_place = net.clock.next_block
        net.clock.next_block += BLOCK
    site.next_place += 1
    return site.next_place - 1


@part
def key_of(net: Net, row: int) -> float:
    """The sort key of a waiting call: its priority, then the network's order. The smallest key goes first."""
    call, order = net.calls[row], net.clock.order
    key = call.key
    if order == FCFS:
        key = float(net.clock.released)
    elif order == OLDEST_TASK:
        key = float(call.task)
    elif order == LEAST_ATTAINED:
        key = float(net.attained[call.task])
    return call.rank * _CLASS + key


@part
def choose(routes: Any, net: Net, g: int, row: int, now_s: float) -> int:
    """Ask the routing policy of group g for an engine.

    Returns:
        The engine, counted from 0 within the group; -1 if the policy raised an error.
    """
    group, ends, routing, flat = net.groups[g], net.groups[g + 1], net.routing, net.route_flat
    n = group.count
    ints = routing.workers_i[group.workers : group.workers + 4 * n].reshape((4, n))
    floats = routing.workers_f[group.workers : group.workers + 4 * n].reshape((4, n))
    request = net.given.shown[row]
    need = float(request.prompt_tokens)
    if group.capacity < np.inf:
        for i in range(n):
            floats[KV_FREE, i] = max(group.capacity - floats[LOAD, i] - floats[QUEUED_LOAD, i], need)
    routing.waiting_i[ID, 0], routing.waiting_i[CLASS, 0] = request.request_id, net.calls[row].request_class
    routing.waiting_i[KEY, 0] = net.calls[row].affinity
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
        routing.workers_f[:0].reshape((n, 0)),
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
def form_batches(policies: Any, net: Net, now_s: float) -> int:
    """Form batches on the engines without one: event 3 of this module's docstring.

    Returns:
        `GOES_ON`, or the code of a scheduling policy's mistake.
    """
    for e in range(net.clock.low, net.clock.high + 1):
        if due_s(net, e) <= now_s and net.sites[e].formed == 0:
            run = run_of(net, e)
            if run.now.now_s < now_s:
                run.now.now_s, run.now.seen_s = now_s, now_s
            net.clock.engine = e
            code = form(policies, net, run, e)
            if code != GOES_ON:
                return code
    return GOES_ON


@part
def waiting(now: Any) -> int:
    """Calls that wait at an engine: in its queue, or sent and not in it yet."""
    return now.waiting + now.known - now.coming


@part
def show(net: Net, e: int) -> None:
    """Write what routing policies see of an engine."""
    group, now = net.groups[net.sites[e].group], net.now[e]
    if group.count > 1:
        place = group.workers + e - group.first
        net.routing.workers_i[place + RUNNING * group.count] = now.running
        net.routing.workers_f[place + LOAD * group.count] = float(net.fixed[e].kv_capacity - now.kv_free)
        show_waiting(net, e)


@part
def show_waiting(net: Net, e: int) -> None:
    """Write what routing policies see of the calls that wait at an engine."""
    group, site = net.groups[net.sites[e].group], net.sites[e]
    place = group.workers + e - group.first
    if group.count > 1:
        net.routing.workers_i[place + QUEUED * group.count] = waiting(net.now[e])
        net.routing.workers_f[place + QUEUED_LOAD * group.count] = float(site.waiting_tokens)


@part
def form(policies: Any, net: Net, run: Run, e: int) -> int:
    """Form the next batch of engine e, or note when its policy wants to be asked again.

    The batch's tokens run at once, while its requests are in the processor's caches: nothing can change them any more.
    The network does not see them before `end_batch`.

    Returns:
        `GOES_ON`, or the code of the policy's mistake.
    """
    now, site, queued = run.now, net.sites[e], waiting(run.now)
    while True:
        code = iterate(policies[site.policy], run)
        if code == HAS_FORMED:
            count_waiting(run, site, queued)
            show(net, e)
            run_batch(run, seconds_of(run.law, run.batch) + run.fixed.overhead_s + now.beside_s)
            site.formed = 1
            set_due(net, e, now.now_s)
            return GOES_ON
        if code != HAS_NONE:
            return code
        if run.fixed.schedules_ahead == 1 and now.seen_s < now.now_s:
            now.seen_s = now.now_s
            continue
        set_due(net, e, now.wake_s)
        return GOES_ON if now.wake_s > now.now_s else HOLDS_FOR_EVER


@part
def count_waiting(run: Run, site: Any, queued: int) -> None:
    """Update an engine's waiting tokens: calls of the new batch no longer wait, evicted ones wait again.

    Args:
        queued: calls that waited before the batch was formed.
    """
    now, answer = run.now, run.policy
    if now.evictions != site.evictions:
        site.evictions, site.waiting_tokens = now.evictions, 0
        for i in range(now.first, now.first + now.waiting):
            request = run.requests.shown[run.lists.waiting[i]]
            site.waiting_tokens += request.prompt_tokens + request.produced
    elif waiting(now) != queued:
        for p in range(answer.counts[PICKED]):
            if answer.picked[0, p] < 0:
                request = run.requests.shown[-1 - answer.picked[0, p]]
                site.waiting_tokens -= request.prompt_tokens + request.produced


@part
def ended(net: Net) -> int:
    """The code at the end of a run: `DONE`, or `HOLDS_FOR_EVER` if an engine keeps calls without a next event."""
    for e in range(net.now.size):
        if net.now[e].running + net.now[e].waiting > 0:
            net.clock.engine = e
            return HOLDS_FOR_EVER
    return DONE


@part
def stop(net: Net, now_s: float) -> None:
    """Stop at the time limit: batches under way end, and other engines' clocks stand at `now_s`."""
    for e in range(net.now.size):
        if net.sites[e].formed == 1:
            end_batch(net, e, np.inf)
        else:
            net.now[e].now_s = max(net.now[e].now_s, now_s)


@part
def begin(net: Net) -> None:
    """Begin with the next island, at time 0."""
    clock = net.clock
    island, ends = net.islands[clock.island], net.islands[clock.island + 1]
    clock.first, clock.last, clock.coming, clock.last_root = island.engines, ends.engines, island.roots, ends.roots
    clock.tree, clock.leaves, clock.heap, clock.samples, clock.sample_s = island.tree, island.leaves, 0, 0, 0.0


@part
def run_island(policies: Any, routes: Any, net: Net) -> int:
    """Run an island until nothing is left to happen there, or the time is up.

    Returns:
        `GOES_ON`, `LISTS_FULL`, or a policy's mistake.
    """
    clock, code = net.clock, GOES_ON
    while code == GOES_ON:
        now_s = next_s(net)
        look(net, min(now_s, clock.until_s))
        if now_s >= clock.until_s:
            clock.then_s = min(clock.then_s, now_s)
            return code
        end_batches(net, now_s)
        code = release(routes, net, now_s)
        if code == GOES_ON:
            code = form_batches(policies, net, now_s)
    return code


@declared(signature(int, several(BATCH_TYPE, MOST_POLICIES), several(ROUTE_TYPE, MOST_POLICIES), Net))
def advance(policies: Any, routes: Any, net: Net) -> int:
    """Run until all tasks are done, the time is up, or a policy breaks its contract; returns the code of the reason.

    It also returns when an engine's lists are full (`LISTS_FULL`), and goes on where it stood once they are wider.

    Args:
        policies: kernels of the scheduling policies; `sim.engine.ask` asks one that has none.
        routes: kernels of the routing policies, likewise.
        net: changed in place.
    """
    clock = net.clock
    while clock.island < net.islands.size - 1:
        if clock.last <= net.islands[clock.island].engines:
            begin(net)
        code = run_island(policies, routes, net)
        if code != GOES_ON:
            return code
        clock.island += 1
    if clock.then_s == np.inf:
        return ended(net)
    stop(net, clock.then_s)
    return STOPPED
