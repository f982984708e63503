"""Draws an index with a probability in proportion to its weight."""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.request import F8


@part
def spin(weight: F8, count: int, chance: float) -> int:
    """Draw an index in 0..count-1 with a probability in proportion to its weight, never one of weight 0.

    Args:
        weight: float64[>= count], >= 0; at least one of the first `count` is above 0.
        count: number of indices to draw from.
        chance: the random number, in [0, 1); 0 gives the first index with a weight above 0.
    """
    total = 0.0
    for k in range(count):
        total += weight[k]
    stop, wheel, place, last = chance * total, 0.0, 0, 0
    for k in range(count):
        wheel += weight[k]
        place += wheel <= stop
        last = k if weight[k] > 0.0 else last
    return min(place, last)  # a chance of almost 1 may round to the whole wheel
