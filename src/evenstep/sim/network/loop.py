"""The compiled loop of a network of engines: one clock, every engine at its own pace.

Order of events at one moment:

1. batches that end now have run their tokens, and calls that are done release those that waited for them;
2. calls whose time has come, of new tasks or released, go to an engine of their group, in order of time and row;
3. every due engine without a batch under way forms one, if its policy picks calls, as a single engine does (`sim.engine`).

The clock then goes to the earliest of the next batch's end, the next release, and the next time a policy asks for.

Engines that share no tasks, directly or through others, do not affect each other. Such islands run one after the other, each
on its own clock, because an engine's data then stay in the processor's caches. The results are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import BATCH_TYPE, ROUTE_TYPE, declared, inlined, part, several, signature
from evenstep.cost.batch_seconds import seconds_of
from evenstep.sim.cluster.pool import heap_pop, heap_push
from evenstep.sim.engine.batch import run_batch
from evenstep.sim.engine.loop import iterate
from evenstep.sim.engine.model import DONE, HAS_FORMED, HAS_NONE, HOLDS_FOR_EVER, STOPPED, Lists, Policy, Run
from evenstep.sim.engine.model import RUNNING as GOES_ON
from evenstep.sim.network.model import LEAST_ATTAINED, LISTS_FULL, Net
from evenstep.sim.network.sending import send, show
from evenstep.sim.network.times import due_s, next_s, set_due

#: Most different scheduling policies of a network, and most different routing policies.
MOST_POLICIES = 8


@inlined
def run_of(net: Net, e: int) -> Run:
    """The state of engine e, counted over all groups, in the form that the engine simulator's loop takes; views."""
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
        lists.picked,
        lists.evicted[0],
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
def look(net: Net, before_s: float) -> None:
    """Record the island's unfinished calls and tokens left (`Samples`) at every sampling time up to `before_s`."""
    clock, samples = net.clock, net.samples
    while clock.samples < samples.tokens.shape[0] and clock.sample_s <= before_s:
        for e in range(clock.first, clock.end):
            now = net.now[e]
            site = net.sites[e]
            samples.requests[clock.samples, e] = now.known - site.finished
            samples.tokens[clock.samples, e] = site.work + now.wasted_tokens - site.ran
        clock.samples += 1
        clock.sample_s += clock.every_s


@part
def end_batch(net: Net, e: int, now_s: float) -> None:
    """End an engine's batch: the network and its routing policies now see its tokens and finished calls.

    A call whose last parent finished is pushed on the heap, to be sent after its `delay_s`.
    """
    site, now, nodes = net.sites[e], net.now[e], net.nodes
    if nodes.child.size > 0 or net.clock.order == LEAST_ATTAINED:  # else nothing depends on the end of a call
        for i in range(site.finished, now.finished):
            row = int(net.call_of[net.lists.finished[e, i]])
            net.attained[nodes.task[row]] += net.calls[row].work
            for k in range(nodes.first_child[row], nodes.first_child[row + 1]):
                child = nodes.child[k]
                nodes.pending[child] -= 1
                if nodes.pending[child] == 0:
                    net.clock.heap = heap_push(net.heap, net.clock.heap, now_s + float(nodes.delay_s[child]), child)
    site.formed, site.finished, site.ran = 0, now.finished, now.prefill_tokens + now.decode_tokens
    show(net, e)


@part
def release(routes: Any, net: Net, now_s: float) -> int:
    """Send the calls that are due at `now_s`, of new tasks or released, to their engines, in order of time and row.

    Returns `GOES_ON`; `LISTS_FULL` if an engine could not take a further call; or the code of a routing policy's mistake.
    """
    clock = net.clock
    while clock.most < net.lists.coming.shape[1]:
        is_root = clock.coming < clock.end_root and net.root_s[clock.coming] <= now_s
        if is_root and clock.heap > 0:
            is_root = (net.root_s[clock.coming], net.roots[clock.coming]) < (net.heap[0].time_s, net.heap[0].key)
        if is_root:
            row = net.roots[clock.coming]
            clock.coming += 1
        elif clock.heap > 0 and net.heap[0].time_s <= now_s:
            row = net.heap[0].key
            clock.heap = heap_pop(net.heap, clock.heap)
        else:
            return GOES_ON
        code = send(routes, net, row, now_s)
        if code != GOES_ON:
            return code
    return LISTS_FULL


@part
def form_batches(policies: Any, net: Net, now_s: float) -> int:
    """Form batches on the engines due at `now_s` without one; returns `GOES_ON` or the code of a policy's mistake."""
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
def form(policies: Any, net: Net, run: Run, e: int) -> int:
    """Form the next batch of engine e, or set when its policy wants to be asked again (`set_due`).

    The batch's tokens run at once, since nothing can change them any more; the network does not see them before `end_batch`.
    Returns `GOES_ON`, or the code of the policy's mistake.
    """
    now, site = run.now, net.sites[e]
    while True:
        code = iterate(policies[site.policy], run)
        if code == HAS_FORMED:
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
def ended(net: Net) -> int:
    """The code of a run without further events: `DONE` if no engine has calls.

    Otherwise an engine's policy holds its calls, and `Clock.engine` is set to that engine. The code is `STOPPED` with a time
    limit, since calls may come after it, else `HOLDS_FOR_EVER`.
    """
    for e in range(net.now.size):
        if net.now[e].running + net.now[e].waiting > 0:
            net.clock.engine = e
            return STOPPED if net.clock.until_s < np.inf else HOLDS_FOR_EVER
    return DONE


@part
def stop(net: Net) -> None:
    """Stop at the time limit: batches under way end at their own time, and other engines' clocks go on to the limit."""
    for e in range(net.now.size):
        if net.sites[e].formed == 1:
            end_batch(net, e, np.inf)
        else:
            net.now[e].now_s = max(net.now[e].now_s, net.clock.until_s)


@part
def begin(net: Net) -> None:
    """Set the clock's words about an island to those of island `Clock.island`; its heap is empty, its sampling at 0 s."""
    clock = net.clock
    island, ends = net.islands[clock.island], net.islands[clock.island + 1]
    clock.first, clock.end = island.first_engine, ends.first_engine
    clock.coming, clock.end_root = island.first_root, ends.first_root
    clock.tree, clock.leaves, clock.heap, clock.samples, clock.sample_s = island.tree, island.leaves, 0, 0, 0.0


@part
def run_island(policies: Any, routes: Any, net: Net) -> int:
    """Run island `Clock.island` to its last event or the time limit and return `GOES_ON`, else the code of an early stop."""
    clock, code = net.clock, GOES_ON
    while code == GOES_ON:
        now_s = next_s(net)
        look(net, min(now_s, clock.until_s))
        if now_s >= clock.until_s:
            clock.then_s = min(clock.then_s, now_s)
            return code
        for e in range(clock.low, clock.high + 1):
            if due_s(net, e) <= now_s and net.sites[e].formed == 1:
                end_batch(net, e, now_s)
        code = release(routes, net, now_s)
        if code == GOES_ON:
            code = form_batches(policies, net, now_s)
    return code


@declared(signature(int, several(BATCH_TYPE, MOST_POLICIES), several(ROUTE_TYPE, MOST_POLICIES), Net))
def advance(policies: Any, routes: Any, net: Net) -> int:
    """Run until all tasks are done, the time is up, or a policy breaks its contract; returns the code of the reason.

    `DONE` and `STOPPED` end the run. At `LISTS_FULL` the caller widens the engines' lists and calls again, and the run goes
    on where it stood. Any other code is a policy's mistake. `policies` and `routes` are the kernels of scheduling and
    routing policies; `sim.engine.plain_door` and `sim.cluster.ask` ask policies without one.
    """
    clock = net.clock
    while clock.island < net.islands.size - 1:
        if clock.end <= net.islands[clock.island].first_engine:
            begin(net)
        code = run_island(policies, routes, net)
        if code != GOES_ON:
            return code
        clock.island += 1
    code = STOPPED if clock.then_s < np.inf else ended(net)
    if code == STOPPED:
        stop(net)
    return code
