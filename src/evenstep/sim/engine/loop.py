"""The compiled loop of one engine; `engine.simulation` gives the order of events.

The loop returns to its host when a table is full, when arriving requests need bounds, at the end, and for a policy's mistake
(codes `RUNNING` .. `OVER_RESIDENTS` of `engine.model`). The next call goes on where it stood. An engine that is one rank of
several also returns when it has formed a batch and when it has run it. All ranks share a clock, which the host keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import BATCH_TYPE, declared, part, signature
from evenstep.cost.batch_seconds import seconds_of
from evenstep.scheduling import view
from evenstep.sim.engine import model
from evenstep.sim.engine.batch import run_batch, take
from evenstep.sim.engine.model import Run
from evenstep.sim.engine.queue import admit, arrive, evict, resolve


@part
def next_arrival_s(run: Run) -> float:
    """Arrival time of the next request that has not joined the queue, in seconds; inf if all have."""
    if run.now.coming < run.lists.coming.size:
        row: int = run.lists.coming[run.now.coming]
        return run.requests.arrival_s[row]
    return np.inf


@part
def wait_for_arrival(run: Run) -> int:
    """Move the clock of an engine without requests to the next arrival or `until_s`, whichever is first.

    Returns `RUNNING`; `DONE` if no request is left; `STOPPED` if the clock reaches `until_s`. For a rank it returns
    `HAS_NONE` and leaves the clock to the host.
    """
    now = run.now
    if run.fixed.is_rank == 1:
        now.wake_s = np.inf
        return model.HAS_NONE
    if now.coming == run.lists.coming.size:
        return model.DONE
    now.now_s = max(now.now_s, min(next_arrival_s(run), run.fixed.until_s))
    now.seen_s = now.now_s
    return model.STOPPED if now.now_s >= run.fixed.until_s else model.RUNNING


@part
def ask(form_batch: Any, run: Run) -> float:
    """Let the policy write its batch to `Run.policy`. Returns `wake_s`: when to ask again if nothing runs, in seconds."""
    fixed, now, lists, requests, policy = run.fixed, run.now, run.lists, run.requests, run.policy
    limits, counts = policy.limits, policy.counts
    limits[view.TOKEN_BUDGET], limits[view.BATCH_LIMIT] = fixed.token_budget, fixed.batch_limit
    limits[view.KV_CAPACITY], limits[view.KV_FREE] = fixed.kv_capacity, now.kv_free
    limits[view.BLOCK_TOKENS], limits[view.HOLD_PRODUCED] = fixed.block_tokens, fixed.hold_produced
    limits[view.FIRST_DECODED], limits[view.RESIDENT_LIMIT] = fixed.first_decoded, fixed.resident_limit
    counts[view.RUNNING], counts[view.WAITING], counts[view.PICKED], counts[view.EVICTED] = now.running, now.waiting, 0, 0
    return form_batch(
        now.iteration,
        fixed.seed,
        now.now_s,
        limits,
        lists.running,
        lists.waiting,
        now.first,
        counts,
        requests.table.T,
        requests.arrival_s,
        policy.arrived,
        policy.memory,
        policy.parameters,
        policy.scratch_i,
        policy.scratch_f,
        policy.picked,
        policy.evicted,
    )


@part
def hold(run: Run, wake_s: float) -> int:
    """Move the clock after an answer without a batch: to the next arrival, `wake_s` or `until_s`, whichever is first.

    With `schedules_ahead`, if `Now.seen_s` is before the clock, requests may have arrived since. `Now.seen_s` is then set to
    the clock, the clock stays, and the policy is asked again. Returns `RUNNING`; `HOLDS_FOR_EVER` if the first of the three
    times is not after the clock, or is inf. For a rank it only keeps `wake_s` in `Now` and returns `HAS_NONE`: the host
    moves the clock.
    """
    now = run.now
    if run.fixed.is_rank == 1:
        now.wake_s = wake_s
        return model.HAS_NONE
    if run.fixed.schedules_ahead == 1 and now.seen_s < now.now_s:
        now.seen_s = now.now_s
        return model.RUNNING
    then_s = min(wake_s, next_arrival_s(run), run.fixed.until_s)
    if not (then_s > now.now_s) or then_s == np.inf:
        return model.HOLDS_FOR_EVER
    now.now_s = then_s
    now.seen_s = then_s
    return model.RUNNING


@part
def form(run: Run) -> int:
    """Check the picked requests, allocate their memory and admit them; a lone engine also runs the batch, a rank does not.

    Call it with at least one pick, after `resolve`, which turns positions into rows. Returns `RUNNING`, `HAS_FORMED` for a
    rank, or the code of the policy's mistake.
    """
    code = take(run)
    if code != model.RUNNING:
        return code
    admit(run)
    if run.fixed.is_rank == 1:
        run.now.formed = 1
        return model.HAS_FORMED
    run_batch(run, seconds_of(run.law, run.batch) + run.fixed.overhead_s + run.now.beside_s)
    return model.RUNNING


@part
def iterate(form_batch: Any, run: Run) -> int:
    """Run one iteration, or move the clock to the next event. Returns `RUNNING`, or the reason to stop (see `advance`)."""
    now = run.now
    if not arrive(run):
        return model.ASK
    if now.running + now.waiting == 0:
        return wait_for_arrival(run)
    if now.now_s >= run.fixed.until_s:
        return model.STOPPED
    if run.table.start_s.size > 0 and now.rows == run.table.start_s.size:
        return model.TABLE_FULL
    wake_s = ask(form_batch, run)
    if now.raised == 1:
        return model.RAISED
    gone, picked = run.policy.counts[view.EVICTED], run.policy.counts[view.PICKED]
    if gone > 0 and run.fixed.overflow == model.NEVER:
        return model.MAY_NOT_EVICT
    code = resolve(run)
    now.beside_s = 0.0
    if code == model.RUNNING and gone > 0:
        code = evict(run)
        if code == model.RUNNING and picked == 0:  # an answer that evicts must also pick
            now.detail = run.policy.evicted[0]
            code = model.BAD_EVICTION
    if code != model.RUNNING:
        return code
    return form(run) if picked > 0 else hold(run, wake_s)


@declared(signature(int, BATCH_TYPE, Run))
def advance(form_batch: Any, run: Run) -> int:
    """Run the loop until the run is done or the host is needed; returns the reason, a code of `engine.model`.

    The host gives a new table at `TABLE_FULL`, sets bounds at `ASK`, and calls again. `DONE` and `STOPPED` end the run;
    every other code of a lone engine is the policy's mistake. A rank stops at `HAS_FORMED`, `HAS_NONE` or a mistake. After
    `HAS_FORMED` the host sets `Now.step_s`, and the next call runs the batch and returns `HAS_RUN`.

    Args:
        form_batch: the policy's kernel; `plain_door.form_batch_into` asks a policy that has no kernel.
        run: changed in place.
    """
    if run.now.formed == 1:
        run.now.formed = 0
        run_batch(run, run.now.step_s)
        return model.HAS_RUN
    status = model.RUNNING
    while status == model.RUNNING:
        status = iterate(form_batch, run)
    return status
