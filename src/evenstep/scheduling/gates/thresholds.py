"""Solves for the least thresholds of gates, from known or estimated arrival rates, shares and work.

Each of several groups of requests has S segments; gate g * S + s is segment s of group g. In an iteration of T seconds,
``rate T`` requests of a group arrive. Of those that leave segment s, the share p_s goes on to the next. The thresholds are

    n_1 = floor(rate T) + 1,  n_{s+1} = floor(p_s n_s + k sqrt(n_s p_s (1 - p_s))) + 1

with a slack of k standard deviations. T = d0 + d1 (KV tokens of a full batch) rises from d0 to its least fixed point. WAIT
is the case of one segment. `theory.wait_thresholds` and `theory.nested_thresholds` solve the same from closed forms, which a
policy may not import.

Source: WAIT eqs. 9 and 10, made strict; the solver is ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from evenstep.compiled import Floats, Ints, part

#: Results of `least`: thresholds found; the engine cannot keep up; a full batch exceeds the memory.
FOUND, OVERLOAD, NO_ROOM = range(3)
#: Steps of the fixed point, and seconds of an iteration, after which the solver gives up.
MOST, LONGEST_S = 10_000, 1e6


class Demand(NamedTuple):
    """The arriving demand of G groups with S segments each: arrival rates, shares that go on, and work."""

    arrivals_per_s: Floats  # float64[G], of each group
    #: float64[G * S], share of the requests leaving a segment that go on to the next; unused for a last segment
    go_on: Floats
    work: Floats  # float64[G * S], KV tokens of a request summed over its iterations in a segment


@part
def arriving_work(demand: Demand) -> float:
    """Work that arrives in a second: KV tokens of the arriving requests, summed over all their iterations."""
    segments = demand.work.size // demand.arrivals_per_s.size
    total, reach = 0.0, 0.0
    for gate in range(demand.work.size):
        if gate % segments == 0:
            reach = demand.arrivals_per_s[gate // segments]
        else:
            reach *= demand.go_on[gate - 1]
        total += reach * demand.work[gate]
    return total


@part
def least(demand: Demand, d0_s: float, d1_s: float, kv_tokens: int, slack: float, found: Ints) -> int:
    """Solve for the least thresholds with which the engine keeps up with the arrivals, and write them to `found`.

    Args:
        d0_s, d1_s: seconds of an empty iteration, and seconds more for each KV token of its batch.
        kv_tokens: memory, which a batch with the thresholds of all gates must fit.
        slack: k, standard deviations.
        found: int64[G * S], by gate, written in place.

    Returns: `FOUND`; `OVERLOAD` if the engine cannot keep up or the solver gives up; `NO_ROOM` if a full batch exceeds the
        memory. `found` is valid with `FOUND` only.
    """
    segments = demand.work.size // demand.arrivals_per_s.size
    if not d1_s * arriving_work(demand) < 1.0:
        return OVERLOAD
    seconds = d0_s
    for _ in range(MOST):
        held = 0.0
        for gate in range(demand.work.size):
            if gate % segments == 0:
                reach = demand.arrivals_per_s[gate // segments] * seconds
            else:
                share = demand.go_on[gate - 1]
                reach = share * float(found[gate - 1])
                reach += slack * math.sqrt(reach * (1.0 - share))
            found[gate] = math.floor(reach) + 1
            held += float(found[gate]) * demand.work[gate]
        longer = d0_s + d1_s * held
        if held > kv_tokens:
            return NO_ROOM
        if longer == seconds:
            return FOUND
        if longer > LONGEST_S:
            break
        seconds = longer
    return OVERLOAD
