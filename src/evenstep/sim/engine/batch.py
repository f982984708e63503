# pyright: basic
"""A batch of the engine simulator, compiled: it takes its memory and runs its tokens; twin of `engine.reference`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing
from evenstep.cost.batch import (
    CHUNK_SQUARES,
    CROSSED,
    DECODE_CONTEXT,
    DECODES,
    KV,
    LONGEST,
    PREFILL_CONTEXT,
    PREFILL_TOKENS,
    REQUESTS,
    TOKENS,
)
from evenstep.measure.quantiles import BINS, FIRST_BIN, SHIFT
from evenstep.scheduling.view import (
    DECODING,
    LEFT,
    PREFILLED,
    PRODUCED,
    RESIDENT,
)
from evenstep.sim.engine.kept import leave, overwrite, returns
from evenstep.sim.engine.layout import (
    ATTAINED,
    BAD_TOKENS,
    BLOCK,
    BUDGET,
    BUSY,
    CAPACITY,
    DECODE_ALL,
    DETAIL,
    FINISHED,
    FINISHED_S,
    FIRST_ITERATION,
    FIRST_TOKEN_S,
    FREE,
    GAP_MAX,
    GAP_SUM,
    GAPS,
    HOLD,
    ITERATION,
    KEEPS,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_ROW,
    LAG,
    LAST_ITERATION,
    LAST_TOKEN_S,
    LIMIT,
    MARK,
    MOVED,
    NOW,
    OUTPUT,
    OVER_BUDGET,
    OVER_LIMIT,
    OVER_MEMORY,
    OVER_RESIDENTS,
    OVERFLOW,
    PICKED_TWICE,
    PREFILL_ALL,
    RESIDENTS,
    RUNS,
    SCHEDULED_S,
    SEEN,
    SWAP,
    SWAP_A,
    SWAP_B,
    T_DECODES,
    T_EVICTED,
    T_KV_BATCH,
    T_KV_HELD,
    T_PREFILL,
    T_PRODUCED,
    T_REQUESTS,
    T_RUNNING,
    T_SECONDS,
    T_START,
    T_TOKENS,
    T_WAITING,
    TABLE_ROWS,
    WAITS,
)
from evenstep.sim.engine.queue import set_left


@borrowing
def take(state_i, numbers_i, numbers_f, rows, hidden, times, batch, picked, count):
    """What is picked is checked and takes its memory; the batch's features are summed. A code, or 0; seconds of swapping."""
    for k in range(batch.size):
        batch[k] = 0.0
    used, context, crossed, moved, returned, grown, residents = 0, 0, 0, 0, 0, 0, state_i[RUNS]
    squares, decoded, held_all, decodes, prefill, longest = 0, 0, 0, 0, 0, 0
    block = numbers_i[BLOCK]
    for p in range(count):
        row = picked[0, p]
        if row < 0:
            row = -1 - row
            residents += 1
        tokens, before = picked[1, p], rows[PREFILLED, row]
        if tokens < 1 or tokens > rows[LEFT, row]:
            state_i[DETAIL] = row
            return BAD_TOKENS, 0.0
        if hidden[MARK, row] == state_i[ITERATION] + 1:
            state_i[DETAIL] = row
            return PICKED_TWICE, 0.0
        hidden[MARK, row] = state_i[ITERATION] + 1
        held = before + tokens
        if numbers_i[HOLD] == 1 and tokens == rows[LEFT, row]:
            held += 1
        if block > 1:
            held = (held + block - 1) // block * block
        if rows[RESIDENT, row] == 0 and before > 0 and numbers_i[OVERFLOW] == SWAP:
            moved += before
            returned += 1
        if numbers_i[KEEPS] == 1:
            grown += (held - rows[RESIDENT, row]) // block
            if rows[RESIDENT, row] == 0:
                grown -= returns(state_i, numbers_i, rows, hidden, row)
        state_i[FREE] -= held - rows[RESIDENT, row]
        rows[RESIDENT, row] = held
        held_all += before + tokens
        used += tokens
        if rows[DECODING, row] == 1:
            decodes += 1
            decoded += before
            longest = max(longest, before)
        else:
            prefill += tokens
            squares += tokens * tokens
            crossed += tokens * before
            context += before
    if used > numbers_i[BUDGET]:
        state_i[DETAIL] = used
        return OVER_BUDGET, 0.0
    if count > numbers_i[LIMIT]:
        state_i[DETAIL] = count
        return OVER_LIMIT, 0.0
    if residents > numbers_i[RESIDENTS]:
        state_i[DETAIL] = residents
        return OVER_RESIDENTS, 0.0
    if state_i[FREE] < 0:
        state_i[DETAIL] = numbers_i[CAPACITY] - state_i[FREE]
        return OVER_MEMORY, 0.0
    if grown > 0:
        first = state_i[KEPT_FIRST]
        overwrite(state_i, numbers_i, rows, hidden, times, grown)
        for i in range(first, min(state_i[KEPT_FIRST] + 1, state_i[KEPT_LAST])):
            row = hidden[KEPT_ROW, i]
            if rows[RESIDENT, row] == 0 and not times[FINISHED_S, row] >= 0.0:
                set_left(numbers_i, rows, row)
    batch[TOKENS], batch[REQUESTS], batch[DECODES], batch[PREFILL_TOKENS] = used, count, decodes, prefill
    batch[KV], batch[CHUNK_SQUARES], batch[CROSSED] = held_all, squares, crossed
    batch[DECODE_CONTEXT], batch[PREFILL_CONTEXT], batch[LONGEST] = decoded, context, longest
    state_i[MOVED] += moved
    return 0, numbers_f[SWAP_A] * moved + numbers_f[SWAP_B] * returned


@borrowing
def count_gap(state_i, state_f, gaps, gap, times_):
    """Gaps between tokens, by length."""
    at = (np.float64(gap).view(np.int64) >> SHIFT) - FIRST_BIN
    gaps[min(max(at, 0), BINS - 1)] += times_
    state_i[GAPS] += times_
    state_f[GAP_SUM] += gap * times_
    state_f[GAP_MAX] = max(state_f[GAP_MAX], gap)


@borrowing
def produce(
    state_i, state_f, numbers_i, rows, hidden, times, running, finished, gaps, picked, count, started_s
):
    """Tokens of the batch are run; who has produced its last one leaves. Returns tokens produced."""
    now, iteration, lag = state_f[NOW], state_i[ITERATION], numbers_i[LAG]
    produced, gone, usual = 0, 0, 0
    for p in range(count):
        row = picked[0, p] if picked[0, p] >= 0 else -1 - picked[0, p]
        tokens = picked[1, p]
        if hidden[FIRST_ITERATION, row] < 0:
            hidden[FIRST_ITERATION, row] = iteration
            times[SCHEDULED_S, row] = started_s
        was_decoding, complete = rows[DECODING, row] == 1, tokens == rows[LEFT, row]
        rows[PREFILLED, row] += tokens
        hidden[ATTAINED, row] += tokens
        if complete and (lag == 0 or was_decoding):
            made = rows[PRODUCED, row] + 1
            rows[PRODUCED, row] = made
            produced += 1
            last = times[LAST_TOKEN_S, row]
            if last == started_s:
                usual += 1
            elif last >= 0.0:
                count_gap(state_i, state_f, gaps, now - last, 1)
            else:
                times[FIRST_TOKEN_S, row] = now
            times[LAST_TOKEN_S, row] = now
            if made == hidden[OUTPUT, row]:
                times[FINISHED_S, row] = now
                hidden[LAST_ITERATION, row] = iteration
                state_i[FREE] += rows[RESIDENT, row]
                if numbers_i[KEEPS] == 1:
                    leave(state_i, hidden, row, rows[RESIDENT, row] // numbers_i[BLOCK])
                rows[RESIDENT, row] = 0
                gone += 1
            rows[LEFT, row], rows[DECODING, row] = 1, 1
        elif complete:
            rows[LEFT, row], rows[DECODING, row] = 1, 1
        else:
            rows[LEFT, row] -= tokens
            if lag == 0 and rows[LEFT, row] == 1 and rows[PRODUCED, row] > 0:
                rows[DECODING, row] = 1
    if usual > 0:
        count_gap(state_i, state_f, gaps, now - started_s, usual)
    if gone > 0:
        left = 0
        for i in range(state_i[RUNS]):
            row = running[i]
            if rows[PRODUCED, row] < hidden[OUTPUT, row]:
                running[left] = row
                left += 1
            else:
                finished[state_i[FINISHED]] = row
                state_i[FINISHED] += 1
        state_i[RUNS] = left
    return produced


@borrowing
def run_batch(
    state_i, state_f, numbers_i, rows, hidden, times, running, finished, gaps, batch, picked, count, gone, seconds,
    table_i, table_f,
):  # fmt: skip
    """The batch runs for so many seconds: the clock, its tokens, and its row of the table."""
    started_s, held, ran, waits = (
        state_f[NOW],
        numbers_i[CAPACITY] - state_i[FREE],
        state_i[RUNS],
        state_i[WAITS],
    )
    state_f[SEEN] = started_s
    state_f[NOW] = started_s + seconds
    state_f[BUSY] += seconds
    produced = produce(
        state_i, state_f, numbers_i, rows, hidden, times, running, finished, gaps, picked, count, started_s
    )
    state_i[PREFILL_ALL] += np.int64(batch[PREFILL_TOKENS])
    state_i[DECODE_ALL] += np.int64(batch[DECODES])
    state_i[ITERATION] += 1
    if table_f.shape[1] > 0:
        at = state_i[TABLE_ROWS]
        table_f[T_START, at], table_f[T_SECONDS, at] = started_s, seconds
        table_i[T_TOKENS, at], table_i[T_PREFILL, at] = (
            np.int64(batch[TOKENS]),
            np.int64(batch[PREFILL_TOKENS]),
        )
        table_i[T_REQUESTS, at], table_i[T_DECODES, at] = count, np.int64(batch[DECODES])
        table_i[T_KV_BATCH, at], table_i[T_KV_HELD, at] = np.int64(batch[KV]), held
        table_i[T_RUNNING, at], table_i[T_WAITING, at] = ran, waits
        table_i[T_EVICTED, at], table_i[T_PRODUCED, at] = gone, produced
        state_i[TABLE_ROWS] = at + 1
