"""The compiled loop of the decode cluster; `cluster` gives the order of events.

Loads are int64 in units of 1 / `Fixed.scale` tokens, so sums are exact in any order. With a linear drift a worker's load
grows by ``running * delta`` a step. Requests leave through a calendar of completions by their last step. The loop returns to
its host for predictions, when a buffer is full, and at the end (`RUNNING ... BROKEN` in `cluster.model`). The next call goes
on where it stood.
"""

from __future__ import annotations

from typing import Any

from evenstep.compiled import ROUTE_TYPE, declared, part, signature
from evenstep.sim.cluster import events, model
from evenstep.sim.cluster.arrivals import reveal
from evenstep.sim.cluster.lookahead import build_view, due_predictions, overloaded, take_predictions
from evenstep.sim.cluster.model import Run
from evenstep.sim.cluster.slots import dequeue, seat
from evenstep.sim.cluster.step import sample, sample_longest, start_step


@part
def advance_time(run: Run) -> int:
    """Move the clock to the next event (`next_event`). If nothing else can happen, the earliest outages happen at once.

    Returns `RUNNING`; `DONE` if all requests completed; `STUCK` if requests are left and nothing can happen; `GROW` if the
    pool has no room for requests that go back to it.
    """
    status = events.next_event(run)
    if status == model.STUCK and run.now.outages_left > 0:
        status = events.apply_outages(run, -1)
        run.now.phase = model.REVEAL if status == model.RUNNING else model.NEXT
    return status


@part
def complete(run: Run) -> int:
    """Complete the steps of the groups whose step ends now, in ascending order, and apply their outages.

    Returns `RUNNING`, or a code as `complete_group` or `apply_outages` does. The next call continues there.
    """
    groups = run.fleet.groups
    for q in range(run.fixed.groups):
        if groups[q].boundary == 1:
            status = events.complete_group(run, q)
            if status != model.RUNNING:
                return status
            groups[q].boundary = 2
        if groups[q].boundary == 2 and run.now.outages_left > 0:
            status = events.apply_outages(run, q)
            if status != model.RUNNING:
                return status
    run.now.phase = model.REVEAL
    return model.RUNNING


@part
def show_pool(run: Run) -> int:
    """Move arrived requests into the pool, and set `Now.overloaded_now`. Returns `RUNNING`, or `GROW` without room."""
    now = run.now
    status = reveal(run)
    if status == model.RUNNING:
        now.overloaded_now = overloaded(run.pool.load, now.first, now.waiting, now.free_total)
        now.phase = model.DECIDE
    return status


@part
def predict(run: Run) -> int:
    """List the predictions that are due for the host (`Ahead.due`), or take over its answers if they were listed before.

    Returns `PREDICT` if the host has to answer and then call again, else `RUNNING`. Only `DEPARTURES` and `EXPECTED` ask.
    """
    if run.fixed.prediction >= model.DEPARTURES:
        if run.now.due == 0:
            due_predictions(run)
            if run.now.due > 0:
                return model.PREDICT
        take_predictions(run)
    return model.RUNNING


@part
def decide(route: Any, run: Run) -> int:
    """Ask the policy while a request waits and a worker may be sent one; carry out each answer, and record it if asked to.

    With ``pool`` dispatch it is asked once, with ``instant`` about the oldest request at a time until it holds. Returns
    `RUNNING`, or why the loop stops: `FLUSH` if the records are full, `GROW` if the queues are, `PREDICT` or `BROKEN`.
    """
    fixed, now = run.fixed, run.now
    while now.waiting > 0 and now.free_total > 0:
        if fixed.record_decisions == 1 and now.decision_rows == run.records.decisions.size:
            return model.FLUSH
        if min(now.waiting, now.free_total) > run.queues.size - now.queued_all:
            return model.GROW
        status = predict(run)
        if status != model.RUNNING:
            return status
        build_view(run)
        waiting, free = now.waiting, now.free_total
        status = events.ask(route, run, 1 if fixed.instant == 1 else waiting)
        if status == model.RUNNING:
            status = events.apply_decision(run)
        if status != model.RUNNING:
            return status
        if fixed.record_decisions == 1:
            kept = run.records.decisions[now.decision_rows]
            now.decision_rows += 1
            kept.decision, kept.waiting, kept.free_slots, kept.admitted = now.decisions, waiting, free, now.admitted_now
            kept.now_s, kept.bound = now.now_s, now.bound
        now.decisions += 1
        if fixed.instant == 0 or now.admitted_now == 0:
            break
    now.phase = model.START
    return model.RUNNING


@part
def start_group(run: Run, q: int) -> int:
    """Start the next step of group q, unless a step is under way or no request runs.

    Before that, queued requests move up, and overflow is evicted. Returns `RUNNING`; `GROW` if pool or carry list has no
    room for evicted requests; `FLUSH` if the table of steps is full.
    """
    fixed, now, fleet, group = run.fixed, run.now, run.fleet, run.fleet.groups[q]
    if group.busy == 1:
        return model.RUNNING
    if group.queued > 0:
        for g in range(group.first, group.first + group.workers):
            while fleet.queued[g] > 0 and fleet.running[g] < fleet.workers[g].slots:
                node = run.queues[dequeue(run, g)]
                seat(run, node.row, g, node.units, node.since_s)
    if fixed.kv_limited == 1:
        status = events.evict_overflow(run, q)
        if status != model.RUNNING:
            return status
    if group.running == 0:
        group.admitted = 0
        return model.RUNNING
    if now.step_rows == run.records.steps.step.size:
        return model.FLUSH
    sampled = now.stride > 0 and group.step % now.stride == 0 and sample(fixed, now, fleet, run.samples, q, group.step)
    if sampled and fixed.law_kind == model.LINES_OF_LONGEST:
        sample_longest(run)
    start_step(run, q)
    if sampled:
        run.samples.rows[now.samples - 1].duration_s = group.end_s - now.now_s
    return model.RUNNING


@part
def start(run: Run) -> int:
    """Start steps of all groups without a step under way, in ascending order. Returns a code as `start_group` does."""
    for q in range(run.fixed.groups):
        status = start_group(run, q)
        if status != model.RUNNING:
            return status
    run.now.phase = model.NEXT
    return model.RUNNING


@declared(signature(int, ROUTE_TYPE, Run))
def advance(route: Any, run: Run) -> int:
    """Run the loop until the run is done or the host is needed, and return why it stopped. `run` is changed in place.

    `route` is the policy's kernel; `ask.route_into` asks a policy that has none. `DONE`: all requests completed. `STUCK`:
    requests are left and nothing can happen. `BROKEN`: the policy raised, or its answer is invalid (`Now.error_kind`). The
    host acts on the others and calls again: `FLUSH`: empty the records. `GROW`: call `State.grow`. `PREDICT`: answer
    `Ahead.due`.
    """
    now, status = run.now, model.RUNNING
    while status == model.RUNNING:
        if now.phase == model.NEXT:
            status = advance_time(run)
        if status == model.RUNNING and now.phase == model.COMPLETE:
            status = complete(run)
        if status == model.RUNNING and now.phase == model.REVEAL:
            status = show_pool(run)
        if status == model.RUNNING and now.phase == model.DECIDE:
            status = decide(route, run)
        if status == model.RUNNING and now.phase == model.START:
            status = start(run)
    return status
