"""The compiled loop of one engine; `engine.simulation` gives the order of events.

The loop returns to its host when a table is full, for bounds of requests that arrive, at the end and for an error of the
policy (`RUNNING` .. `OVER_RESIDENTS` in `engine.model`), and goes on where it stood. An engine that is one rank of several
also returns when it has formed a batch and when it has run it. All ranks share a clock, which the host keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import BATCH_TYPE, declared, part, signature
from evenstep.cost.batch_seconds import seconds_of
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    BLOCK_TOKENS,
    EVICTED,
    FIRST_DECODED,
    HOLD_PRODUCED,
    KV_CAPACITY,
    KV_FREE,
    PICKED,
    RESIDENT_LIMIT,
    TOKEN_BUDGET,
    WAITING,
)
from evenstep.scheduling.view import RUNNING as RUNNING_COUNT
from evenstep.sim.engine.batch import run_batch, take
from evenstep.sim.engine.model import (
    ASK,
    BAD_EVICTION,
    DONE,
    HAS_FORMED,
    HAS_NONE,
    HAS_RUN,
    HOLDS_FOR_EVER,
    MAY_NOT_EVICT,
    NEVER,
    RAISED,
    RUNNING,
    STOPPED,
    TABLE_FULL,
    Run,
)
from evenstep.sim.engine.queue import admit, arrive, evict, resolve


@part
def next_arrival_s(run: Run) -> float:
    """When the next request arrives; inf where none does."""
    if run.now.coming < run.lists.coming.size:
        row: int = run.lists.coming[run.now.coming]
        arrival_s: float = run.requests.arrival_s[row]
        return arrival_s
    return np.inf


@part
def wait_for_arrival(run: Run) -> int:
    """An engine without requests: the clock goes to the next arrival."""
    now = run.now
    if run.fixed.is_rank == 1:
        now.wake_s = np.inf
        return HAS_NONE
    if now.coming == run.lists.coming.size:
        return DONE
    now.now_s = max(now.now_s, next_arrival_s(run))
    now.seen_s = now.now_s
    return STOPPED if now.now_s >= run.fixed.until_s else RUNNING


@part
def ask(form_batch: Any, run: Run) -> float:
    """Ask the policy for a batch; answers when it wants to be asked again if it runs nothing."""
    fixed, now, lists, requests, policy = run.fixed, run.now, run.lists, run.requests, run.policy
    limits, counts = policy.limits, policy.counts
    limits[TOKEN_BUDGET], limits[BATCH_LIMIT] = fixed.token_budget, fixed.batch_limit
    limits[KV_CAPACITY], limits[KV_FREE] = fixed.kv_capacity, now.kv_free
    limits[BLOCK_TOKENS], limits[HOLD_PRODUCED] = fixed.block_tokens, fixed.hold_produced
    limits[FIRST_DECODED], limits[RESIDENT_LIMIT] = fixed.first_decoded, fixed.resident_limit
    counts[RUNNING_COUNT], counts[WAITING], counts[PICKED], counts[EVICTED] = now.running, now.waiting, 0, 0
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
def make_room(run: Run) -> int:
    """Read the answer's positions, and evict what it evicts."""
    now, gone = run.now, run.policy.counts[EVICTED]
    if gone > 0 and run.fixed.overflow == NEVER:
        return MAY_NOT_EVICT
    code = resolve(run)
    if code != RUNNING:
        return code
    now.beside_s = 0.0
    if gone > 0:
        code = evict(run)
        if code == RUNNING and run.policy.counts[PICKED] == 0:
            now.detail = run.policy.evicted[0]
            code = BAD_EVICTION
    return code


@part
def hold(run: Run, wake_s: float) -> int:
    """The policy runs nothing: the clock goes to the next arrival, or to `wake_s` if that is earlier."""
    now = run.now
    if run.fixed.is_rank == 1:
        now.wake_s = wake_s
        return HAS_NONE
    if run.fixed.schedules_ahead == 1 and now.seen_s < now.now_s:
        now.seen_s = now.now_s
        return RUNNING
    then_s = min(wake_s, next_arrival_s(run))
    if not (then_s > now.now_s) or then_s == np.inf:
        return HOLDS_FOR_EVER
    now.now_s = then_s
    now.seen_s = then_s
    return RUNNING


@part
def form(run: Run) -> int:
    """The batch takes its memory; where it need not wait for other ranks, it runs."""
    code = take(run)
    if code != RUNNING:
        return code
    admit(run)
    if run.fixed.is_rank == 1:
        run.now.formed = 1
        return HAS_FORMED
    run_batch(run, seconds_of(run.law, run.batch) + run.fixed.overhead_s + run.now.beside_s)
    return RUNNING


@part
def iterate(form_batch: Any, run: Run) -> int:
    """One iteration, or the way to the next event; answers whether the host is needed, and for what."""
    now = run.now
    if not arrive(run):
        return ASK
    if now.running + now.waiting == 0:
        return wait_for_arrival(run)
    if now.now_s >= run.fixed.until_s:
        return STOPPED
    if run.table.start_s.size > 0 and now.rows == run.table.start_s.size:
        return TABLE_FULL
    wake_s = ask(form_batch, run)
    if now.raised == 1:
        return RAISED
    code = make_room(run)
    if code != RUNNING:
        return code
    return form(run) if run.policy.counts[PICKED] > 0 else hold(run, wake_s)


@declared(signature(int, BATCH_TYPE, Run))
def advance(form_batch: Any, run: Run) -> int:
    """Go on until the run is done or the host is needed; answers why.

    Args:
        form_batch: the policy's kernel; `ask.form_batch_into` asks a policy that has none.
        run: changed in place.
    """
    if run.now.formed == 1:
        run.now.formed = 0
        run_batch(run, run.now.step_s)
        return HAS_RUN
    status = RUNNING
    while status == RUNNING:
        status = iterate(form_batch, run)
    return status
