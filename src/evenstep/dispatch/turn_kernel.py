# pyright: basic
"""Compiled batches: the requests that a round sends, and those whose answers came whole.

Both take the common case only, and leave the numbers that `Requests.seat` and `Ending._finish` do.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import F1, F2, FLOAT, I1, I2, INT, array_at, check, declared, jit
from evenstep.dispatch.mirror_layout import CAME, CHANGES, FREE_AT_MOST, SENT, SENT_LOAD, WENT
from evenstep.dispatch.rows_layout import (
    COPIES,
    KEY,
    LEAVE,
    LEG,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    QUEUED_AT,
    SEATED,
    SENT_AT,
    SINCE,
    STATE,
    TRIES,
    WORKER,
)  # fmt: skip
from evenstep.dispatch.transitions import NEXT, Cause, State
from evenstep.routing.view import HOLD

_WAITS = NEXT[State.FREE][Cause.ARRIVES_FOR_DECODE]
_IS_POOLED, _IS_SENT = int(State.POOLED), int(State.SENT)
_THEN_SENT, _THEN_FREE = NEXT[State.POOLED][Cause.DECODE_SENT], NEXT[State.SENT][Cause.ENDS]
#: Rows of what `end` is told: where a request is, the leg that ended, its tokens. It leaves the key in place of the leg.
ROW, ENDED_LEG, TOLD_PROMPT, TOLD_OUTPUT = range(4)
TOLD = 4
HALF_OF, FORGET_AT = 1 << 14, 1 << 16  # observations after which older ones weigh half


@jit
def count(value, counts, bounds, sums):
    """One more observation of a histogram; see `meters.Histogram`."""
    low, high = 0, bounds.size
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] < value:
            low = middle + 1
        else:
            high = middle
    counts[low] += 1
    sums[0] += value
    sums[1] += 1.0


_COUNT_ALL = F1, I1, F1, F1


@declared(None if INT is None else INT(*_COUNT_ALL))
def count_all(values, counts, bounds, sums):
    """So many more observations, in order."""
    for value in values:
        count(value, counts, bounds, sums)
    return values.size


@jit
def clean(ints, row):
    """A row as a request finds it that arrives; see `Rows`."""
    for column in range(ints.shape[0]):
        ints[column, row] = 0
    ints[WORKER, row], ints[PREDICTED, row], ints[LEAVE, row], ints[COPIES, row] = -1, -1, NEVER, 1


_SEAT = I2, F2, I2, F2, INT, INT, I1, I1, INT, INT, FLOAT, I1, F1, I1, F1, F1


@declared(None if INT is None else INT(*_SEAT))
def seat(
    rows_i, rows_f, ints, floats, pool, size, waiting, worker, shown, legs, now_s, tokens, waits, counts, bounds, sums
):  # fmt: skip
    """Send the requests that a round admits to their workers, unless one of them is not in its usual course.

    That is: it wants one slot, has failed nowhere, is on its first leg and in no prediction.

    Args:
        rows_i, rows_f: the table of requests. ints, floats: the mirror's columns.
        pool, size: address and number of the rows that wait, oldest first, int64; those that are sent are taken out.
        waiting, worker: int64[>= shown], the rows that the round was about, and the answer; see `deciding_kernel.show`.
        legs: number of the last leg.
        tokens: int64[1], written: tokens of the prompts that were sent.
        waits: float64[2], sum and number of waits (`pool.Waits`).
        counts, bounds, sums: the histogram of waits.

    Returns:
        Requests that were sent; -1 where nothing was done.
    """
    for i in range(shown):
        row = waiting[i]
        if not 0 <= row < rows_i.shape[1] or not HOLD <= worker[i] < ints.shape[1]:
            return -1
        if worker[i] != HOLD and (
            rows_i[STATE, row] != _IS_POOLED or rows_i[COPIES, row] != 1 or rows_i[SEATED, row] != 0
            or rows_i[PRODUCED, row] != 0 or rows_i[PREDICTED, row] >= 0 or rows_i[TRIES, row] != 0
        ):  # fmt: skip
            return -1
    sent = tokens[0] = 0
    for i in range(shown):
        row, g = waiting[i], worker[i]
        if g == HOLD:
            continue
        sent += 1
        rows_i[STATE, row], rows_i[WORKER, row], rows_i[SEATED, row] = _THEN_SENT, g, 1
        rows_i[LEG, row], rows_f[SENT_AT, row] = legs + sent, now_s
        ints[SENT, g] += 1
        ints[CAME, g] += 1
        floats[SENT_LOAD, g] += rows_i[PROMPT, row]
        tokens[0] += rows_i[PROMPT, row]
        wait_s = now_s - rows_f[QUEUED_AT, row]
        waits[0] += wait_s
        waits[1] += 1.0
        if waits[1] == FORGET_AT:
            waits[0], waits[1] = waits[0] / 2, FORGET_AT // 2
        count(wait_s, counts, bounds, sums)
    here, left = array_at(pool, size, np.int64), 0
    for i in range(size):
        check(0 <= here[i] < rows_i.shape[1])
        if rows_i[STATE, here[i]] == _IS_POOLED:
            here[left] = here[i]
            left += 1
    return sent


_END = I2, F1, INT, INT, I2, F2, I2, F2, F1, I1, F1, F1


@declared(None if INT is None else INT(*_END))
def end(told, times, at, last, rows_i, rows_f, ints, floats, learned, counts, bounds, sums):
    """Requests whose answers came whole, in order, up to the first that is not in its usual course.

    That is: it wants one slot, has failed nowhere, has no token so far, is in no prediction, and its worker stays.

    Args:
        told: int64[TOLD, N], see `ROW`; -1 for a request that is not known. times: float64[N], when each ended.
        at, last: of these.
        rows_i, rows_f: the table of requests. ints, floats: the mirror's columns.
        learned: float64[3], see `Deciding.learned`.
        counts, bounds, sums: the histogram of times to the first token.

    Returns:
        The first that was left.
    """
    while at < last:
        row, prompt, output = told[ROW, at], told[TOLD_PROMPT, at], told[TOLD_OUTPUT, at]
        if (
            not 0 <= row < rows_i.shape[1]
            or rows_i[STATE, row] != _IS_SENT
            or rows_i[LEG, row] != told[ENDED_LEG, at]
            or output < 1
        ):
            break
        g = rows_i[WORKER, row]
        if not 0 <= g < ints.shape[1]:
            break
        is_first = rows_i[PRODUCED, row] == 0 and rows_i[PREDICTED, row] < 0 and rows_i[TRIES, row] == 0
        if not is_first or rows_i[COPIES, row] != 1 or ints[FREE_AT_MOST, g] < 0:
            break
        floats[SENT_LOAD, g] -= rows_i[PROMPT, row]
        ints[SENT, g] -= 1
        ints[WENT, g] += 1
        count(times[at] - rows_f[SINCE, row], counts, bounds, sums)
        learned[0] += output
        learned[1] += float(output) * float(output)
        learned[2] += 1.0
        if learned[2] == HALF_OF:
            learned[0], learned[1], learned[2] = learned[0] / 2, learned[1] / 2, HALF_OF // 2
        if prompt < 1:
            told[TOLD_PROMPT, at] = rows_i[PROMPT, row]
        else:
            ints[CHANGES, g] += 1
        told[ENDED_LEG, at] = rows_i[KEY, row]
        clean(rows_i, row)
        rows_i[STATE, row] = _THEN_FREE
        at += 1
    return at
