# pyright: basic
"""Who waits and who runs in the engine simulator, compiled: arrivals, evictions, admissions; twin of `engine.reference`."""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.order import key_of
from evenstep.scheduling.view import (
    CLASS,
    DECODING,
    EVICTIONS,
    LEFT,
    LOST_AT,
    PREFILLED,
    PRODUCED,
    PROMPT,
    REACHED,
    RESIDENT,
)
from evenstep.sim.engine.kept import leave
from evenstep.sim.engine.layout import (
    AHEAD,
    ASKED,
    ASKS,
    ATTAINED,
    BAD_EVICTION,
    BAD_ORDER,
    BAD_POSITION,
    BLOCK,
    COMING,
    DETAIL,
    DROP_A,
    DROP_B,
    EVICTED_ALL,
    FIRST,
    FREE,
    KEEPS,
    KEY,
    KNOWN,
    LAG,
    MOVED,
    NOW,
    OVERFLOW,
    RESTART,
    RUNS,
    SEED,
    SEEN,
    SWAP,
    SWAP_A,
    SWAP_B,
    WAITS,
    WASTED,
    WASTED_ALL,
)


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
