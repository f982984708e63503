# pyright: basic
"""The engine simulator's loop, compiled: the twin of `engine.reference`, equal in bits. Layout: `engine.layout`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import BATCH_TYPE, F1, F2, I1, I2, INT, ROWS_F, ROWS_I, declared
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
    RUNNING,
    TOKEN_BUDGET,
    WAITING,
)
from evenstep.sim.engine.batch import run_batch, take
from evenstep.sim.engine.layout import (
    AHEAD,
    ASK,
    BAD_EVICTION,
    BESIDE_S,
    BLOCK,
    BUDGET,
    CAPACITY,
    COMING,
    DETAIL,
    DONE,
    FIRST,
    FORMED,
    FREE,
    HAS_FORMED,
    HAS_NONE,
    HAS_RUN,
    HOLD,
    HOLDS_FOR_EVER,
    IS_RANK,
    ITERATION,
    LAG,
    LIMIT,
    MAY_NOT_EVICT,
    NEVER,
    NOW,
    OVERFLOW,
    OVERHEAD,
    RESIDENTS,
    RUNS,
    SEED,
    SEEN,
    STEP_S,
    STOPPED,
    TABLE_FULL,
    TABLE_ROWS,
    UNTIL,
    WAITS,
    WAKE_S,
)
from evenstep.sim.engine.queue import admit, arrive, evict, resolve


def continued(
    form_batch, state_i, state_f, numbers_i, numbers_f, rows, hidden, times, arrival_s, coming, running, waiting,
    finished, arrived, gaps, batch, weights, law, memory, parameters, scratch_i, scratch_f, limits, counts,
    picked, evicted, table_i, table_f,
):  # fmt: skip
    """Run until all is done or the host is needed; what for. One rank of several stops at each batch, formed and run."""
    if state_i[FORMED] == 1:
        state_i[FORMED] = 0
        run_batch(
            state_i, state_f, numbers_i, rows, hidden, times, running, finished, gaps, batch, picked, counts[PICKED],
            counts[EVICTED], state_f[STEP_S], table_i, table_f,
        )  # fmt: skip
        return HAS_RUN
    while True:
        if not arrive(
            state_i, state_f, numbers_i, weights, rows, hidden, times, arrival_s, coming, waiting, arrived
        ):
            return ASK
        R, W = state_i[RUNS], state_i[WAITS]
        if R + W == 0:
            if numbers_i[IS_RANK] == 1:
                state_f[WAKE_S] = np.inf
                return HAS_NONE
            if state_i[COMING] == coming.size:
                return DONE
            state_f[NOW] = max(state_f[NOW], arrival_s[coming[state_i[COMING]]])
            state_f[SEEN] = state_f[NOW]
            if state_f[NOW] >= state_f[UNTIL]:
                return STOPPED
            continue
        if state_f[NOW] >= state_f[UNTIL]:
            return STOPPED
        if table_f.shape[1] > 0 and state_i[TABLE_ROWS] == table_f.shape[1]:
            return TABLE_FULL
        limits[TOKEN_BUDGET], limits[BATCH_LIMIT] = numbers_i[BUDGET], numbers_i[LIMIT]
        limits[KV_CAPACITY], limits[KV_FREE] = numbers_i[CAPACITY], state_i[FREE]
        limits[BLOCK_TOKENS], limits[HOLD_PRODUCED] = numbers_i[BLOCK], numbers_i[HOLD]
        limits[FIRST_DECODED], limits[RESIDENT_LIMIT] = numbers_i[LAG], numbers_i[RESIDENTS]
        counts[RUNNING], counts[WAITING], counts[PICKED], counts[EVICTED] = R, W, 0, 0
        wake_s = form_batch(
            state_i[ITERATION], numbers_i[SEED], state_f[NOW], limits, running, waiting, state_i[FIRST], counts,
            rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
        )  # fmt: skip
        count, gone = counts[PICKED], counts[EVICTED]
        if gone > 0 and numbers_i[OVERFLOW] == NEVER:
            return MAY_NOT_EVICT
        code = resolve(state_i, running, waiting, picked, evicted, count, gone)
        if code != 0:
            return code
        moved_s = 0.0
        if gone > 0:
            moved_s = evict(
                state_i,
                numbers_i,
                numbers_f,
                weights,
                rows,
                hidden,
                times,
                arrival_s,
                running,
                waiting,
                evicted,
                gone,
            )
            if moved_s < 0.0:
                return BAD_EVICTION
        if count == 0:
            if gone > 0:
                state_i[DETAIL] = evicted[0]
                return BAD_EVICTION
            if numbers_i[IS_RANK] == 1:
                state_f[WAKE_S] = wake_s
                return HAS_NONE
            if numbers_i[AHEAD] == 1 and state_f[SEEN] < state_f[NOW]:
                state_f[SEEN] = state_f[NOW]
                continue
            then = wake_s
            if state_i[COMING] < coming.size:
                then = min(then, arrival_s[coming[state_i[COMING]]])
            if not (then > state_f[NOW]) or then == np.inf:
                return HOLDS_FOR_EVER
            state_f[NOW] = state_f[SEEN] = then
            continue
        code, swapped_s = take(state_i, numbers_i, numbers_f, rows, hidden, times, batch, picked, count)
        if code != 0:
            return code
        admit(state_i, running, waiting, picked, count)
        if numbers_i[IS_RANK] == 1:
            state_f[BESIDE_S] = moved_s + swapped_s
            state_i[FORMED] = 1
            return HAS_FORMED
        seconds = seconds_of(law, batch) + numbers_f[OVERHEAD] + (moved_s + swapped_s)
        run_batch(
            state_i, state_f, numbers_i, rows, hidden, times, running, finished, gaps, batch, picked, count, gone,
            seconds, table_i, table_f,
        )  # fmt: skip


#: Arguments of the loop after the policy's kernel.
ENGINE_TYPES = (
    I1, F1, I1, F1, ROWS_I, ROWS_I, ROWS_F, F1, I1, I1, I1, I1, I1, I1, F1, F1, F1, I1, F1, I1, F1, I1, I1, I2, I1, I2, F2,
)  # fmt: skip
advance = declared(None if INT is None else INT(BATCH_TYPE, *ENGINE_TYPES))(continued)
