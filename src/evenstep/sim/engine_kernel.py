# pyright: basic
"""The engine simulator's loop, compiled: the twin of `engine_reference`, equal in bits. Layout: `engine_layout`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import BATCH_TYPE, F1, F2, I1, I2, INT, ROWS_F, ROWS_I, borrowing, declared
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
from evenstep.cost.batch_kernel import seconds_of
from evenstep.measure.quantiles import BINS, FIRST_BIN, SHIFT
from evenstep.scheduling.order_kernel import key_of
from evenstep.scheduling.view import (
    BATCH_LIMIT,
    BLOCK_TOKENS,
    CLASS,
    DECODING,
    EVICTED,
    EVICTIONS,
    FIRST_DECODED,
    HOLD_PRODUCED,
    KV_CAPACITY,
    KV_FREE,
    LEFT,
    LOST_AT,
    PICKED,
    PREFILLED,
    PRODUCED,
    PROMPT,
    REACHED,
    RESIDENT,
    RUNNING,
    TOKEN_BUDGET,
    WAITING,
)
from evenstep.sim.engine_layout import (
    AHEAD,
    ASK,
    ASKED,
    ASKS,
    ATTAINED,
    BAD_EVICTION,
    BAD_ORDER,
    BAD_POSITION,
    BAD_TOKENS,
    BESIDE_S,
    BLOCK,
    BUDGET,
    BUSY,
    CAPACITY,
    COMING,
    DECODE_ALL,
    DETAIL,
    DONE,
    DROP_A,
    DROP_B,
    EVICTED_ALL,
    FINISHED,
    FINISHED_S,
    FIRST,
    FIRST_ITERATION,
    FIRST_TOKEN_S,
    FORMED,
    FREE,
    GAP_MAX,
    GAP_SUM,
    GAPS,
    HAS_FORMED,
    HAS_NONE,
    HAS_RUN,
    HOLD,
    HOLDS_FOR_EVER,
    IS_RANK,
    ITERATION,
    KEEPS,
    KEPT_FIRST,
    KEPT_LAST,
    KEPT_ROW,
    KEY,
    KNOWN,
    LAG,
    LAST_ITERATION,
    LAST_TOKEN_S,
    LIMIT,
    MARK,
    MAY_NOT_EVICT,
    MOVED,
    NEVER,
    NOW,
    OUTPUT,
    OVER_BUDGET,
    OVER_LIMIT,
    OVER_MEMORY,
    OVERFLOW,
    OVERHEAD,
    PICKED_TWICE,
    PREFILL_ALL,
    RESTART,
    RUNS,
    SCHEDULED_S,
    SEED,
    SEEN,
    STEP_S,
    STOPPED,
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
    TABLE_FULL,
    TABLE_ROWS,
    UNTIL,
    WAITS,
    WAKE_S,
    WASTED,
    WASTED_ALL,
)
from evenstep.sim.kept_kernel import leave, overwrite, returns


@borrowing
def join(state_i, numbers_i, weights, rows, hidden, times, arrival_s, waiting, row):
    """A request joins the queue where its key belongs: before larger ones, ties by row."""
    key = key_of(weights, numbers_i[SEED], row, rows, arrival_s, hidden[ATTAINED, row])
    times[KEY, row] = key
    first, count = state_i[FIRST], state_i[WAITS]
    low, high = first, first + count
    if count > 0:
        last = waiting[high - 1]
        if key > times[KEY, last] or (key == times[KEY, last] and row > last):
            low = high
    while low < high:
        middle = (low + high) // 2
        other = waiting[middle]
        if times[KEY, other] < key or (times[KEY, other] == key and other < row):
            low = middle + 1
        else:
            high = middle
    if first > 0 and (low - first < first + count - low or first + count == waiting.size):
        for i in range(first, low):
            waiting[i - 1] = waiting[i]
        state_i[FIRST] = first - 1
        waiting[low - 1] = row
    else:
        for i in range(first + count, low, -1):
            waiting[i] = waiting[i - 1]
        waiting[low] = row
    state_i[WAITS] = count + 1


@borrowing
def set_left(numbers_i, rows, row):
    """Tokens a request could run now, and whether it decodes."""
    pending = rows[PROMPT, row] + rows[PRODUCED, row] - rows[PREFILLED, row]
    if numbers_i[LAG] == 1:
        rows[LEFT, row], rows[DECODING, row] = (pending, 0) if pending > 0 else (1, 1)
    else:
        rows[LEFT, row] = pending
        rows[DECODING, row] = 1 if rows[PRODUCED, row] > 0 and pending == 1 else 0


@borrowing
def arrive(state_i, state_f, numbers_i, weights, rows, hidden, times, arrival_s, coming, waiting, arrived):
    """Requests whose time has come join the queue; False where their bounds must be asked for first."""
    at = state_i[COMING]
    seen = state_f[SEEN] if numbers_i[AHEAD] == 1 else state_f[NOW]
    while at < state_i[KNOWN] and arrival_s[coming[at]] <= seen:
        if numbers_i[ASKS] == 1 and at >= state_i[ASKED]:
            return False
        row = coming[at]
        set_left(numbers_i, rows, row)
        join(state_i, numbers_i, weights, rows, hidden, times, arrival_s, waiting, row)
        arrived[rows[CLASS, row]] += 1
        at += 1
        state_i[COMING] = at
    return True


@borrowing
def evict(
    state_i, numbers_i, numbers_f, weights, rows, hidden, times, arrival_s, running, waiting, evicted, count
):
    """Requests give up their memory and join the queue; seconds the moving costs, or -1 with `DETAIL` set."""
    moved, wasted, squares, last = 0, 0, 0, -1
    for e in range(count):
        position = evicted[e]
        if position <= last or position >= state_i[RUNS]:
            state_i[DETAIL] = position
            return -1.0
        last = position
        row = running[position]
        held, kept = rows[PREFILLED, row], 0
        if numbers_i[KEEPS] == 1:
            kept = held // numbers_i[BLOCK] * numbers_i[BLOCK]
            leave(state_i, hidden, row, rows[RESIDENT, row] // numbers_i[BLOCK])
        moved += held
        wasted += held - kept
        squares += held * held
        state_i[FREE] += rows[RESIDENT, row]
        rows[RESIDENT, row] = 0
        rows[EVICTIONS, row] += 1
        rows[LOST_AT, row] = rows[PRODUCED, row]
        rows[REACHED, row] = max(rows[REACHED, row], rows[PRODUCED, row])
        if numbers_i[OVERFLOW] != SWAP:
            hidden[WASTED, row] += held - kept
            rows[PREFILLED, row] = kept
            if numbers_i[OVERFLOW] == RESTART:
                rows[PRODUCED, row] = 0
        set_left(numbers_i, rows, row)
        running[position] = -1 - row
    left = 0
    for i in range(state_i[RUNS]):
        if running[i] >= 0:
            running[left] = running[i]
            left += 1
        else:
            join(state_i, numbers_i, weights, rows, hidden, times, arrival_s, waiting, -1 - running[i])
    state_i[RUNS] = left
    state_i[EVICTED_ALL] += count
    if numbers_i[OVERFLOW] == SWAP:
        state_i[MOVED] += moved
        return numbers_f[SWAP_A] * moved + numbers_f[SWAP_B] * count
    state_i[WASTED_ALL] += wasted
    return numbers_f[DROP_A] * squares + numbers_f[DROP_B] * count


@borrowing
def resolve(state_i, running, waiting, picked, evicted, count, gone):
    """Positions become rows, before evictions move anything; a code where one is no position, twice or out of order."""
    R, last = state_i[RUNS], -1
    e = 0
    for p in range(count):
        position = picked[0, p]
        if position < 0 or position >= R + state_i[WAITS]:
            state_i[DETAIL] = position
            return BAD_POSITION
        if position >= R:
            if position <= last:
                state_i[DETAIL] = position
                return BAD_ORDER
            last = position
            picked[0, p] = -1 - waiting[state_i[FIRST] + position - R]
        else:
            for e in range(gone):
                if evicted[e] == position:
                    state_i[DETAIL] = position
                    return BAD_EVICTION
            picked[0, p] = running[position]
    return 0


@borrowing
def admit(state_i, running, waiting, picked, count):
    """Picked requests leave the queue, in its order, and join those that run."""
    at, end = state_i[FIRST], state_i[FIRST] + state_i[WAITS]
    first = at
    taken, kept = 0, 0
    for p in range(count):
        if picked[0, p] >= 0:
            continue
        row = -1 - picked[0, p]
        while waiting[at] != row:  # queue order, as resolve made sure; evicted ones may stand between
            at += 1
        running[state_i[RUNS]] = row
        state_i[RUNS] += 1
        waiting[at] = -1
        taken += 1
        at += 1
    if taken == 0:
        return
    # what stands before the last one taken moves up to it, so that the queue's tail stays where it is
    kept = at
    for i in range(at - 1, first - 1, -1):
        if waiting[i] >= 0:
            kept -= 1
            waiting[kept] = waiting[i]
    state_i[FIRST] = kept
    state_i[WAITS] = end - kept


@borrowing
def take(state_i, numbers_i, numbers_f, rows, hidden, times, batch, picked, count):
    """What is picked is checked and takes its memory; the batch's features are summed. A code, or 0; seconds of swapping."""
    for k in range(batch.size):
        batch[k] = 0.0
    used, context, crossed, moved, returned, grown = 0, 0, 0, 0, 0, 0
    squares, decoded, held_all, decodes, prefill, longest = 0, 0, 0, 0, 0, 0
    block = numbers_i[BLOCK]
    for p in range(count):
        row = picked[0, p] if picked[0, p] >= 0 else -1 - picked[0, p]
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
        limits[FIRST_DECODED] = numbers_i[LAG]
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
