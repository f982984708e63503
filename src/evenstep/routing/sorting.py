"""A stable sort for rules, which must not allocate memory."""

from __future__ import annotations

from evenstep.compiled import Floats, Ints, borrowing, part


@borrowing
def sort(keys: Floats, values: Ints, spare_keys: Floats, spare_values: Ints) -> None:
    """Sort keys ascending, in place and stable, and move `values` with them. The spare arrays are overwritten.

    All four arrays have the same size. The method is insertion sort in runs of 8, then merges between the two pairs of
    arrays.
    """
    count = keys.size
    for begin in range(0, count, 8):
        for at in range(begin + 1, min(begin + 8, count)):
            key, value, to = keys[at], values[at], at
            while to > begin and keys[to - 1] > key:
                keys[to], values[to] = keys[to - 1], values[to - 1]
                to -= 1
            keys[to], values[to] = key, value
    run, is_spare = 8, False
    while run < count:
        if is_spare:
            merge_runs(run, spare_keys, spare_values, keys, values)
        else:
            merge_runs(run, keys, values, spare_keys, spare_values)
        is_spare = not is_spare
        run *= 2
    if is_spare:
        for at in range(count):
            keys[at], values[at] = spare_keys[at], spare_values[at]


@part
def merge_runs(run: int, keys: Floats, values: Ints, into_keys: Floats, into_values: Ints) -> None:
    """Merge neighbouring sorted runs of length `run` in pairs, with their values; the result goes to the `into` arrays."""
    count = keys.size
    for begin in range(0, count, 2 * run):
        left, middle = begin, min(begin + run, count)
        right, end = middle, min(begin + 2 * run, count)
        for to in range(begin, end):
            if right >= end or (left < middle and keys[left] <= keys[right]):
                into_keys[to], into_values[to] = keys[left], values[left]
                left += 1
            else:
                into_keys[to], into_values[to] = keys[right], values[right]
                right += 1
