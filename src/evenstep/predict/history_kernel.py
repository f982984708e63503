# pyright: basic
"""A window of output lengths as counts by length with prefix sums that are kept, not rebuilt (two Fenwick trees).

Adding or forgetting a length and asking how many lengths lie in an interval cost O(log longest), whatever the window.
All sums are whole numbers, so answers are the same bits in any order of learning.
"""

from __future__ import annotations

from evenstep.compiled import jit

#: Places of `state`: the oldest length in the ring, how many it holds.
OLDEST, HELD = 0, 1


@jit
def change(counts, trees, length, sign):
    """Enter (sign 1) or take back (sign -1) one length.

    Args:
        counts: int64[L], how often each length 0..L-1 stands in the window; L is a power of two.
        trees: int64[2, L], Fenwick trees over lengths: their number and their sum.
    """
    counts[length] += sign
    place = length
    while place < counts.size:
        trees[0, place] += sign
        trees[1, place] += sign * length
        place += place & -place


@jit
def forget(ring, state, counts, trees, number):
    """Take back the oldest lengths of the window."""
    for _ in range(number):
        change(counts, trees, ring[state[OLDEST]], -1)
        state[OLDEST] = (state[OLDEST] + 1) % ring.size
        state[HELD] -= 1


@jit
def rebuild(ring, state, counts, trees):
    """Enter every length of the window into empty `counts` and `trees`."""
    for i in range(state[HELD]):
        change(counts, trees, ring[(state[OLDEST] + i) % ring.size], 1)


@jit
def learn(ring, state, counts, trees, lengths, first):
    """Enter lengths from `first` on, in order, each in place of the oldest once the window is full.

    Returns:
        How many of `lengths` are entered: fewer than all when the next one is below 1 or does not fit `counts`.
    """
    for i in range(first, lengths.size):
        length = lengths[i]
        if length < 1 or length >= counts.size:
            return i
        if state[HELD] == ring.size:
            forget(ring, state, counts, trees, 1)
        ring[(state[OLDEST] + state[HELD]) % ring.size] = length
        state[HELD] += 1
        change(counts, trees, length, 1)
    return lengths.size


@jit
def leaving(state, counts, trees, ages, horizon, minimum, steps_left, leaves):
    """Both stages of the empirical survival estimate, for every age.

    Args:
        ages: int64[N], tokens produced.
        horizon: H, steps.
        minimum: lengths above an age below which the window says nothing about it.
        steps_left, leaves: float64[N], written: E[min(r, H)] in 1..H, and P(r <= H); H and 0 where it says nothing.

    Returns:
        Number of ages the window says nothing about; -1 - i when ages[i] is negative.
    """
    silent = 0
    top = counts.size - 1
    for i in range(ages.size):
        age = ages[i]
        if age < 0:
            return -1 - i
        start = min(age, top)
        end = min(age + horizon, top)
        survivors = state[HELD]
        gone, tokens = 0, 0
        place = end
        while place > 0:
            gone += trees[0, place]
            tokens += trees[1, place]
            place &= place - 1
        place = start
        while place > 0:
            number = trees[0, place]
            survivors -= number
            gone -= number
            tokens -= trees[1, place]
            place &= place - 1
        if survivors < minimum:
            silent += 1
            steps_left[i] = horizon
            leaves[i] = 0.0
            continue
        inside = tokens - gone * age + (survivors - gone) * horizon
        steps_left[i] = min(max(inside / survivors, 1.0), float(horizon))
        leaves[i] = gone / survivors
    return silent


@jit
def curve(state, counts, trees, ages, horizon, minimum, stays):
    """P(r > h) for h = 0..H of every age, written to `stays`, float64[N, H+1]; 1 where the window says nothing.

    Returns:
        As `leaving`.
    """
    silent = 0
    for i in range(ages.size):
        age = ages[i]
        if age < 0:
            return -1 - i
        survivors = state[HELD]
        place = min(age, counts.size - 1)
        while place > 0:
            survivors -= trees[0, place]
            place &= place - 1
        if survivors < minimum:
            silent += 1
            for h in range(horizon + 1):
                stays[i, h] = 1.0
            continue
        left = survivors
        stays[i, 0] = 1.0
        for h in range(1, horizon + 1):
            if age + h < counts.size:
                left -= counts[age + h]
            stays[i, h] = left / survivors
    return silent
