"""Barrier groups that have a free slot, read from the mirror's columns."""

from __future__ import annotations

from typing import Any

from evenstep.compiled import I2, INT, declared
from evenstep.dispatch.fleet.mirror_layout import FREE_AT_MOST, GROUP, RESERVED, RUNNING, SENT


@declared(None if INT is None else INT(I2, I2))
def open_groups(ints: Any, found: Any) -> int:
    """Barrier groups with a free slot, in order; returns how many.

    Args:
        ints: the mirror's columns.
        found: int64[2, G], row 0 is written with their numbers, row 1 is working space.
    """
    G, count = ints.shape[1], 0
    for group in range(G):
        found[1, group] = 0
    for g in range(G):
        held = ints[RUNNING, g] + ints[SENT, g] + ints[RESERVED, g]
        if ints[FREE_AT_MOST, g] > held and found[1, ints[GROUP, g]] == 0:
            found[0, count] = ints[GROUP, g]
            found[1, ints[GROUP, g]] = 1
            count += 1
    return count
