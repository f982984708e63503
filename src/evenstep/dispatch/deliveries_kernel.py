# pyright: basic
"""The compiled part of `delivering`: chunks, and the steps of their group that begin and end with them.

What is rare is left to `Delivering._deliver`: first tokens, requests that were set back, an end that comes late, a step at
whose end somebody waits for a decision.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import array_at, check, jit
from evenstep.dispatch.fleet.mirror_layout import FLOATS, FOREIGN_LOAD, GROUP, INTS, LOAD, RUNNING
from evenstep.dispatch.requests.rows_layout import INTS as ROW_INTS
from evenstep.dispatch.requests.rows_layout import PRODUCED, WORKER
from evenstep.dispatch.steps.lockstep import AHEAD, RARELY
from evenstep.dispatch.steps.steps_layout import (
    ENDED_S,
    ERROR,
    FEWEST,
    FIT_STEPS,
    KEEP,
    LAST_S,
    NEW,
    NEWS,
    SECONDS,
    STEP_S,
    STEPS,
    TOGETHER,
    WEIGHT,
    XX,
    XY,
    YY,
    X,
    Y,
)
from evenstep.dispatch.steps.steps_layout import FLOATS as STEP_FLOATS

#: What `table` holds: how many rows, workers and groups there are, early steps that each group has room for, whether nobody
#: waits for the end of a step.
ROWS, WORKERS, GROUPS, ROOM, QUIET = range(5)
#: Addresses: of rows int64[INTS, R] and the step each delivered last int64[R]; of workers int64[INTS, G], float64[FLOATS, G]
#: and `Mirror.left` float64[G]; of `lockstep` int64[Q], [Q, ROOM] and float64[Q], [Q, ROOM]; the address of the numbers of
#: each `Steps` int64[Q]; where each group begins in the places of its members int64[Q + 1], and these int64[G].
ROW_NUMBERS, LAST, WORKER_NUMBERS, LOADS, LEFT = range(5, 10)
STEP, DELIVERED, EXPECTED, GOING, COUNTS_TOKENS, EARLY, EARLY_DELIVERED, EARLY_GOING = range(10, 18)
SEEN, ENDED, LASTED, PARTED, EARLY_SEEN = range(18, 23)
STEPS_AT, BEGINS, MEMBERS = range(23, 26)
PLACES = 26


@jit
def deliver(told, at, count, now_s, table):
    """Chunks from `at` on, as `Delivering.produced` counts them, up to the first one that is not usual.

    Args:
        told: int64[2 n], the row of each chunk, then the tokens of each. count: how many there are. now_s: when they came.
        table: int64[PLACES], where everything is.

    Returns:
        The first chunk that was not counted.
    """
    R, G, Q = table[ROWS], table[WORKERS], table[GROUPS]
    rows, last = array_at(table[ROW_NUMBERS], ROW_INTS * R, np.int64), array_at(table[LAST], R, np.int64)
    workers = array_at(table[WORKER_NUMBERS], INTS * G, np.int64)
    loads = array_at(table[LOADS], FLOATS * G, np.float64)
    step, delivered = array_at(table[STEP], Q, np.int64), array_at(table[DELIVERED], Q, np.int64)
    expected, counts_tokens = (
        array_at(table[EXPECTED], Q, np.int64),
        array_at(table[COUNTS_TOKENS], Q, np.int64),
    )
    seen_s, early = array_at(table[SEEN], Q, np.float64), array_at(table[EARLY], Q, np.int64)
    check(at >= 0 and count <= told.size // 2)
    while at < count:
        row, tokens = told[at], told[told.size // 2 + at]
        if not 0 <= row < R:  # for the plain code to refuse
            break
        worker = rows[WORKER * R + row]
        if not 0 <= worker < G:
            break
        group = workers[GROUP * G + worker]
        check(0 <= group < Q)
        first = (
            last[row] + 1 - step[group]
        )  # it delivers this step, counted from the one under way, to `ahead`
        ahead = first + (tokens - 1 if counts_tokens[group] != 0 else 0)
        if first < 0 or ahead >= AHEAD or max(ahead, early[group]) > table[ROOM]:
            break
        begins = delivered[group] == 0
        ends = first == 0 and delivered[group] + 1 == expected[group]
        if (begins or ends) and not _is_usual(table, group, ends, ahead, now_s):
            break
        if begins:
            _begins(table, group)
        if first == 0:
            delivered[group] += 1
            seen_s[group] = now_s
        if ahead > 0:
            _come_early(table, group, max(first, 1), ahead, now_s)
        last[row] = step[group] + ahead
        rows[PRODUCED * R + row] += tokens
        loads[LOAD * G + worker] += tokens
        if ends:
            _close(table, group)
        at += 1
    return at


@jit
def _is_usual(table, group, ends, ahead, now_s):
    """Whether a step may begin or end here, without a look at the idle time of many, a late end, or a decision."""
    Q = table[GROUPS]
    numbers = array_at(array_at(table[STEPS_AT], Q, np.int64)[group], STEP_FLOATS, np.float64)
    early = array_at(table[EARLY], Q, np.int64)[group]
    if numbers[NEWS] + max(early, AHEAD) + 3 > TOGETHER:
        return False
    if not ends:
        return True
    others = array_at(table[EXPECTED], Q, np.int64)[group] - 1
    seen_s = array_at(table[SEEN], Q, np.float64)[group]
    is_late = 2.0 * (now_s - seen_s) > array_at(table[LASTED], Q, np.float64)[group]
    return table[QUIET] != 0 and not (ahead == 0 and others > 0 and is_late)


@jit
def _come_early(table, group, first, ahead, now_s):
    """A request delivers steps after the one under way, `first` to `ahead` of them."""
    early = array_at(table[EARLY], table[GROUPS], np.int64)
    size, base = table[GROUPS] * table[ROOM], group * table[ROOM] - 1
    check(first > 0 and ahead <= table[ROOM])
    delivered = array_at(table[EARLY_DELIVERED], size, np.int64)
    seen_s = array_at(table[EARLY_SEEN], size, np.float64)
    early[group] = max(early[group], ahead)
    for place in range(base + first, base + ahead + 1):
        delivered[place] += 1
        seen_s[place] = now_s


@jit
def _close(table, group):
    """End the steps that all have delivered, as `Lockstep._close` and `Admitting.stepped`."""
    Q = table[GROUPS]
    step, delivered = array_at(table[STEP], Q, np.int64), array_at(table[DELIVERED], Q, np.int64)
    expected, going = array_at(table[EXPECTED], Q, np.int64), array_at(table[GOING], Q, np.int64)
    early, seen_s = array_at(table[EARLY], Q, np.int64), array_at(table[SEEN], Q, np.float64)
    ended, at_s = 0, 0.0
    while 0 < delivered[group] == expected[group]:
        ended, at_s = ended + 1, seen_s[group]
        step[group] += 1
        expected[group] -= going[group]
        delivered[group] = going[group] = 0
        if early[group] > 0:
            _next(table, group)
    ended_s, parted = array_at(table[ENDED], Q, np.float64), array_at(table[PARTED], Q, np.float64)
    lasted_s = array_at(table[LASTED], Q, np.float64)
    seconds = (at_s - ended_s[group]) / ended
    ended_s[group] = at_s
    if seconds >= 0.0:
        known_s = lasted_s[group]
        lasted_s[group] = seconds if known_s == np.inf else 0.75 * known_s + 0.25 * seconds
    parted[group] = max(0.0, parted[group] - RARELY * ended)
    numbers = array_at(array_at(table[STEPS_AT], Q, np.int64)[group], STEP_FLOATS, np.float64)
    for number in range(ended):
        if number > 0:
            _begins(table, group)
        n = ended - 1 - number
        complete_s = at_s - seconds * n if n > 0 else at_s
        numbers[SECONDS], numbers[LAST_S] = complete_s - numbers[LAST_S], complete_s
    if delivered[group] > 0:
        _begins(table, group)


@jit
def _next(table, group):
    """As `Lockstep._next`."""
    Q, size, at = table[GROUPS], table[GROUPS] * table[ROOM], group * table[ROOM]
    early, seen_s = array_at(table[EARLY], Q, np.int64), array_at(table[EARLY_SEEN], size, np.float64)
    delivered = array_at(table[EARLY_DELIVERED], size, np.int64)
    going = array_at(table[EARLY_GOING], size, np.int64)
    array_at(table[DELIVERED], Q, np.int64)[group] = delivered[at]
    array_at(table[GOING], Q, np.int64)[group] = going[at]
    array_at(table[SEEN], Q, np.float64)[group] = seen_s[at]
    check(0 < early[group] <= table[ROOM])
    end = at + early[group] - 1
    for place in range(at, end):
        delivered[place], going[place] = delivered[place + 1], going[place + 1]
        seen_s[place] = seen_s[place + 1]
    delivered[end], going[end], seen_s[end] = 0, 0, 0.0
    early[group] -= 1


@jit
def _begins(table, group):
    """As `Steps.begins`, without a newcomer."""
    Q, G = table[GROUPS], table[WORKERS]
    begins = array_at(table[BEGINS], Q + 1, np.int64)
    first, size = begins[group], begins[group + 1] - begins[group]
    check(first >= 0 and size > 0 and first + size <= G)
    members, left = array_at(table[MEMBERS], G, np.int64), array_at(table[LEFT], G, np.float64)
    room = STEP_FLOATS + size + (NEW * TOGETHER if size > 1 else 0)
    numbers = array_at(array_at(table[STEPS_AT], Q, np.int64)[group], room, np.float64)
    seconds, numbers[SECONDS] = numbers[SECONDS], np.nan
    if seconds > 0.0:
        workers = array_at(table[WORKER_NUMBERS], INTS * G, np.int64)
        loads = array_at(table[LOADS], FLOATS * G, np.float64)
        for place in range(size):
            g = members[first + place]
            held = loads[LOAD * G + g] + loads[FOREIGN_LOAD * G + g] - workers[RUNNING * G + g] + left[g]
            numbers[STEP_FLOATS + place] = held
        _count(numbers, size, seconds)
    for place in range(size):
        left[members[first + place]] = 0.0


@jit
def _count(numbers, size, seconds):
    """As `Steps._count` and `StepFit.add`, of the loads that are in `numbers` already."""
    numbers[STEPS] += 1.0
    numbers[STEP_S], numbers[ENDED_S] = seconds, numbers[LAST_S]
    heaviest, total = numbers[STEP_FLOATS], 0.0
    for place in range(size):
        heaviest = max(heaviest, numbers[STEP_FLOATS + place])
        total += numbers[STEP_FLOATS + place]
    numbers[FIT_STEPS] += 1.0
    numbers[WEIGHT] = KEEP * numbers[WEIGHT] + 1.0
    share = 1.0 / numbers[WEIGHT]
    dx, dy = heaviest - numbers[X], seconds - numbers[Y]
    numbers[X] += share * dx
    numbers[Y] += share * dy
    numbers[XX] = KEEP * numbers[XX] + dx * (heaviest - numbers[X])
    numbers[XY] = KEEP * numbers[XY] + dx * (seconds - numbers[Y])
    numbers[YY] = KEEP * numbers[YY] + dy * (seconds - numbers[Y])
    if size == 1:  # nobody to wait for
        return
    fixed = 0.0  # tokens; as `StepFit._law`
    if numbers[FIT_STEPS] >= FEWEST and numbers[XX] > 0.0:
        slope = numbers[XY] / numbers[XX]
        overhead_s = numbers[Y] - slope * numbers[X]
        rest = max(0.0, numbers[YY] - slope * numbers[XY]) / (numbers[WEIGHT] - 2.0)
        of_slope = 4.0 * (rest / numbers[XX])
        of_fixed = 4.0 * (rest / numbers[WEIGHT]) + numbers[X] * numbers[X] * of_slope
        is_law = slope > 0.0 and of_slope <= (ERROR * slope) * (ERROR * slope)
        is_law = is_law and of_fixed <= (ERROR * numbers[Y]) * (ERROR * numbers[Y])
        if is_law and (overhead_s >= 0.0 or overhead_s * overhead_s <= of_fixed):
            fixed = max(0.0, overhead_s) / slope
    check(0 <= numbers[NEWS] < TOGETHER)
    at = STEP_FLOATS + size + NEW * int(numbers[NEWS])
    numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3] = heaviest, total, fixed, seconds
    numbers[NEWS] += 1.0
