"""Projected loads from incrementally kept departures: a ring per worker, so nothing is recomputed from the requests.

A running request of load w that is expected to leave before step t has an entry in its worker's ring. Column ``t & mask``
counts it as one departure, with the load it would have had at t. Entering or removing it is O(1). A produced token needs no
update, because load and count grow by themselves. A decision reads H + 1 columns a worker, for any number of requests.
"""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.request import F8, I8


@jit
def enter(counts: I8, loads: I8 | F8, column: int, load: float, sign: int) -> None:
    """Add (sign 1) or remove (sign -1) one departure in a worker's ring, in place.

    Args:
        counts, loads: the ring: for each column the number of departures (int64), and the sum of their loads, in units.
        column: ``t & mask`` for a departure before step t; mask is the ring's length minus 1.
        load: the load that the leaving request would have at step t, in units (`unit` of `project`).
    """
    counts[column] += sign
    loads[column] += sign * load


@jit
def project(
    load: float, running: int, step: int, delta: int, unit: float, counts: I8, loads: I8 | F8, projected: F8
) -> None:
    """Write the projected load of one worker h = 0..H steps ahead, in KV tokens, to `projected`, float64[H+1].

    Args:
        load, running: its load, in units, and its running requests, now.
        step: number of the coming step, h = 0.
        delta: units every request gains a step.
        unit: KV tokens of one unit.
        counts, loads: the worker's ring of departures (`enter`), only read; its length is a power of two above H.
    """
    mask = counts.size - 1
    projected[0] = load * unit
    for h in range(1, projected.size):
        column = (step + h) & mask
        load += running * delta - loads[column]
        running -= counts[column]
        projected[h] = load * unit
