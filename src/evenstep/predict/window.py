"""A window of requests as counts by length, with prefix sums updated in place (Fenwick trees).

A request of the window has ended, with its output length, or runs or went away, with the tokens it is known to have. The
length of one that did not end is more than that (right-censored). Entering and leaving cost O(log longest) for any window.
Sums are integers, so without running requests answers are the same bits in any order of learning.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenstep.compiled import Ints, IntTable, jit
from evenstep.request import F8, I8

B1: TypeAlias = NDArray[np.bool_]

#: Places of `state`. Requests have running numbers FIRST .. NEXT - 1 in the window, RUNNING of them unended; the table of
#: requests that were asked about has ENTRIES, OUTSIDE of them without a place in the window; LIMIT is the window's size;
#: CENSORING is 1 where running requests count.
FIRST, NEXT, RUNNING, ENTRIES, OUTSIDE, LIMIT, CENSORING, STATE = range(8)
#: Rows of `records` (columns: running number modulo their count): the request; its length, or minus its age while it runs
#: and after it went away unfinished.
ID, LENGTH = 0, 1
#: Rows of `table`, open addressing by request: the request, its running number (or one of the two below), its age.
KEY, NUMBER, AGE = 0, 1, 2
NOWHERE, FREE = -1, -2
#: Rows of `counts` and `trees`: ended requests by length, running ones by age; `trees` also sums the lengths of the ended.
ENDED, RUNS, TOKENS = 0, 1, 2


class Window(NamedTuple):
    """A window's arrays; the constants of this module name their rows and places. All but `state` grow when needed."""

    state: Ints
    records: IntTable
    table: IntTable
    counts: IntTable
    trees: IntTable


@jit
def count(window: Window, length: int, sign: int) -> None:
    """Add (sign 1) or subtract (sign -1) a request in `counts` and `trees`; a `length` <= 0 is minus a running age."""
    counts, trees = window.counts, window.trees
    row, value = ENDED if length > 0 else RUNS, abs(length)
    counts[row, value] += sign
    place = value
    while 0 < place < trees.shape[1]:
        trees[row, place] += sign
        if row == ENDED:
            trees[TOKENS, place] += sign * value
        place += place & -place


@jit
def rebuild(window: Window) -> None:
    """Add the whole window to `counts` and `trees`, which must be zero."""
    state, records = window.state, window.records
    for number in range(state[FIRST], state[NEXT]):
        count(window, records[LENGTH, number & (records.shape[1] - 1)], 1)


@jit
def change(window: Window, number: int, length: int) -> None:
    """Change the length of the request with running number `number`, in records and counts; `length` <= 0: minus its age."""
    records = window.records
    column = number & (records.shape[1] - 1)
    count(window, records[LENGTH, column], -1)
    count(window, length, 1)
    records[LENGTH, column] = length


@jit
def place_of(table: I8, request: int) -> int:
    """The column of a request in the table, or the free column where it belongs."""
    mask = table.shape[1] - 1
    place = request & mask
    while table[NUMBER, place] != FREE and table[KEY, place] != request:
        place = (place + 1) & mask
    return place


@jit
def enter(window: Window, request: int, number: int, age: int) -> None:
    """Write a request into the table, over its old entry if any, with its running number (or `NOWHERE`) and age."""
    state, table = window.state, window.table
    place = place_of(table, request)
    if table[NUMBER, place] == FREE:
        state[ENTRIES] += 1
        state[OUTSIDE] += number == NOWHERE
    table[KEY, place] = request
    table[NUMBER, place] = number
    table[AGE, place] = age


@jit
def remove(window: Window, place: int) -> None:
    """Remove the entry in a column of the table, and move later entries of its chains so that they are still found."""
    state, table = window.state, window.table
    mask = table.shape[1] - 1
    state[ENTRIES] -= 1
    state[OUTSIDE] -= table[NUMBER, place] == NOWHERE
    gap, here = place, place
    while True:
        here = (here + 1) & mask
        if table[NUMBER, here] == FREE:
            break
        home = table[KEY, here] & mask
        if ((here - home) & mask) >= ((here - gap) & mask):
            for row in range(3):
                table[row, gap] = table[row, here]
            gap = here
    table[NUMBER, gap] = FREE


@jit
def forget(window: Window, number: int) -> None:
    """Remove the oldest `number` requests from the window. Those still running stay in the table."""
    state, records, table = window.state, window.records, window.table
    for _ in range(number):
        column = state[FIRST] & (records.shape[1] - 1)
        length = records[LENGTH, column]
        count(window, length, -1)
        if length <= 0:
            state[RUNNING] -= 1
            place = place_of(table, records[ID, column])
            if table[NUMBER, place] == state[FIRST]:
                table[NUMBER, place] = NOWHERE
                state[OUTSIDE] += 1
        state[FIRST] += 1


@jit
def append(window: Window, request: int, length: int) -> None:
    """Add a request to the window, ended (length > 0) or running (minus its age); the oldest ones make room.

    The window holds LIMIT requests at most; if running ones count, four times the running ones where that is more.
    """
    state, records = window.state, window.records
    column = state[NEXT] & (records.shape[1] - 1)
    records[ID, column] = request
    records[LENGTH, column] = length
    state[NEXT] += 1
    count(window, length, 1)
    if length <= 0:
        state[RUNNING] += 1
    most = max(state[LIMIT], 4 * state[ENTRIES] * state[CENSORING])
    if state[NEXT] - state[FIRST] > most:
        forget(window, state[NEXT] - state[FIRST] - most)


@jit
def ask(window: Window, request: int, produced: int, ahead: int) -> None:
    """Note in the table that a running request has produced this many tokens.

    If running requests count, a new one enters the window. It counts as still running `ahead` tokens later, because by then
    it is asked about again or has ended.
    """
    state, table = window.state, window.table
    age = min(produced + ahead, window.counts.shape[1] - 1)
    place = place_of(table, request)
    number = table[NUMBER, place]
    if number == FREE:
        if state[CENSORING] == 1:
            enter(window, request, state[NEXT], produced)
            append(window, request, -age)
        else:
            enter(window, request, NOWHERE, produced)
        return
    table[AGE, place] = produced
    if number != NOWHERE:
        change(window, number, -age)


@jit
def last_ages(requests: I8, ages: I8, table: I8) -> int:
    """Keep one entry for each request, at its first place and with its last age; returns the number of entries.

    `requests` and `ages`, int64[N], are changed: the entries are moved to the front. `table` is working space, int64[M], all
    -1, with M a power of two above N.
    """
    kept, mask = 0, table.size - 1
    for i in range(requests.size):
        request, place = requests[i], requests[i] & mask
        while table[place] >= 0 and requests[table[place]] != request:
            place = (place + 1) & mask
        if table[place] < 0:
            table[place], requests[kept] = kept, request
            kept += 1
        ages[table[place]] = ages[i]
    return kept


@jit
def gone(window: Window, requests: I8, produced: I8) -> None:
    """Note requests that left unfinished, with the tokens they produced; unknown ones are ignored.

    They leave the table. The window counts each as an output longer than that, of unknown length.
    """
    table = window.table
    for i in range(requests.size):
        place = place_of(table, requests[i])
        number = table[NUMBER, place]
        if number == FREE:
            continue
        remove(window, place)
        if number != NOWHERE:
            change(window, number, -min(produced[i], window.counts.shape[1] - 1))


@jit
def enter_all(window: Window, requests: I8, values: I8, ahead: int) -> None:
    """Enter requests that ended (value = length) or run (value = -age), in order."""
    for i in range(requests.size):
        if values[i] > 0:
            append(window, requests[i], values[i])
        else:
            ask(window, requests[i], -values[i], ahead)


@jit
def enter_known(window: Window, known: I8) -> None:
    """Write the columns of another table, int64[3, n], into an empty one."""
    for i in range(known.shape[1]):
        enter(window, known[KEY, i], known[NUMBER, i], known[AGE, i])


@jit
def learn(window: Window, requests: I8, lengths: I8, first: int) -> int:
    """Note that requests from place `first` on have ended with these lengths, in order; they leave the table.

    If running requests count, one that left the window while it ran is not entered again. Returns the place after the last
    one entered. It is below N if the length at that place is below 1, does not fit `counts`, or is below what its request
    had produced.
    """
    state, table, longest = window.state, window.table, window.counts.shape[1] - 1
    for i in range(first, requests.size):
        request, length = requests[i], lengths[i]
        if not 1 <= length <= longest:
            return i
        place = place_of(table, request)
        number = table[NUMBER, place]
        if number == FREE:
            append(window, request, length)
            continue
        if length < min(table[AGE, place], longest):
            return i
        remove(window, place)
        if number != NOWHERE:
            change(window, number, length)
            state[RUNNING] -= 1
        elif state[CENSORING] == 0:
            append(window, request, length)
    return requests.size


@jit
def below(trees: I8, row: int, value: int) -> int:
    """Prefix sum of a row of the trees: the sum over lengths 1..value."""
    total = 0
    place = value
    while place > 0:
        total += trees[row, place]
        place &= place - 1
    return total


@jit
def leaving(window: Window, ages: I8, horizon: int, minimum: int, steps_left: F8, leaves: F8, silent: B1) -> int:
    """Write expected steps left and the probability of leaving within H steps, for every age.

    Args:
        ages: int64[N], tokens produced.
        minimum: least number of ended requests longer than an age to answer for that age.
        steps_left, leaves: float64[N], written: E[min(r, H)] in 1..H, and P(r <= H); H and 0 without an answer.
        silent: bool[N], written: True where there is no answer.

    Returns:
        -1, or the place of an age below 0, where it stops.
    """
    state, counts, trees = window.state, window.counts, window.trees
    top = counts.shape[1] - 1
    ended = state[NEXT] - state[FIRST] - state[RUNNING]
    running = state[RUNNING] - counts[RUNS, 0]  # those of age 0 are above no age
    for i in range(ages.size):
        if ages[i] < 0:
            return i
        age = min(ages[i], top)
        end = min(age + horizon, top)
        before = below(trees, ENDED, age)
        longer = ended - before
        silent[i] = longer < minimum
        if silent[i]:
            steps_left[i], leaves[i] = horizon, 0.0
            continue
        at_risk, censored = longer, 0
        if running > 0:
            at_risk += running - below(trees, RUNS, age)
            censored = below(trees, RUNS, max(age, end - 1)) - below(trees, RUNS, age)
        if censored == 0:  # the product of chances telescopes
            gone = below(trees, ENDED, end) - before
            tokens = below(trees, TOKENS, end) - below(trees, TOKENS, age)
            inside = tokens - gone * age + (at_risk - gone) * horizon
            steps_left[i] = inside / at_risk
            leaves[i] = gone / at_risk
        else:
            chance, start, expected = 1.0, at_risk, 1.0
            for x in range(age + 1, age + horizon):
                if x <= top:
                    at_risk -= counts[ENDED, x]
                    if counts[RUNS, x] > 0:
                        chance *= at_risk / start
                        start = at_risk = max(1, at_risk - counts[RUNS, x])  # 1: nothing is known from here on
                expected += chance * at_risk / start
            if end == age + horizon:
                at_risk -= counts[ENDED, end]
            steps_left[i] = expected
            leaves[i] = 1.0 - chance * at_risk / start
        steps_left[i] = min(max(steps_left[i], 1.0), float(horizon))
    return -1


@jit
def curve(window: Window, ages: I8, horizon: int, minimum: int, stays: F8, silent: B1) -> int:
    """Write P(r > h) for h = 0..H of every age to `stays`, float64[N, H+1]; 1 without an answer.

    The other arguments and the result are those of `leaving`: -1, or the place of an age below 0, where it stops.
    """
    state, counts, trees = window.state, window.counts, window.trees
    top = counts.shape[1] - 1
    ended = state[NEXT] - state[FIRST] - state[RUNNING]
    running = state[RUNNING] - counts[RUNS, 0]
    for i in range(ages.size):
        if ages[i] < 0:
            return i
        age = min(ages[i], top)
        at_risk = ended - below(trees, ENDED, age)
        silent[i] = at_risk < minimum
        if silent[i]:
            for h in range(horizon + 1):
                stays[i, h] = 1.0
            continue
        at_risk += running - below(trees, RUNS, age)
        chance, start = 1.0, at_risk
        stays[i, 0] = 1.0
        for h in range(1, horizon + 1):
            x = age + h
            if x <= top:
                at_risk -= counts[ENDED, x]
            stays[i, h] = chance * at_risk / start
            if x <= top and counts[RUNS, x] > 0:
                chance = stays[i, h]
                start = at_risk = max(1, at_risk - counts[RUNS, x])  # 1: nothing is known from here on
    return -1


@jit
def both_stages(stays: F8, steps_left: F8, leaves: F8) -> None:
    """Write E[min(r, H)], limited to 1..H, and P(r <= H), float64[N] each, from the curves P(r > h), float64[N, H+1]."""
    horizon = stays.shape[1] - 1
    for i in range(stays.shape[0]):
        expected = 0.0
        for h in range(horizon):
            expected += stays[i, h]
        steps_left[i] = min(max(expected, 1.0), float(horizon))
        leaves[i] = 1.0 - stays[i, horizon]
