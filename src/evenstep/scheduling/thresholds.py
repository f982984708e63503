"""The least thresholds of gates for rates, shares and work that are known or estimated; reference.

Groups of segments, gate g * S + s. Of a group ``rate T`` requests arrive in an iteration of T seconds, and of those that
leave segment s the share p_s goes on to the next. The thresholds are

    n_1 = floor(rate T) + 1,  n_{s+1} = floor(p_s n_s + k sqrt(n_s p_s (1 - p_s))) + 1

with a slack of k standard deviations, and T = d0 + d1 (KV tokens of a full batch) climbs from d0 to its least fixed point.
WAIT is the case of one segment. `theory.wait_thresholds` and `theory.nested_thresholds` solve the same from closed forms;
a policy may not import them, nor need what they need beside. `thresholds_kernel` is the compiled twin, equal in bits.

Source: WAIT eqs. 9 and 10, made strict; the solver is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.request import F8, I8

#: What came of it: thresholds; none, because the engine cannot keep up; none that fit the memory.
FOUND, OVERLOAD, NO_ROOM = range(3)
#: Steps of the fixed point, and seconds of an iteration, beyond which it is given up.
MOST, LONGEST_S = 10_000, 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What arrives, and the engine.

    Args:
        arrivals_per_s: float64[G], of each group.
        go_on: float64[G * S], share of those that leave a segment who go on to the next; of a last one not looked at.
        work: float64[G * S], KV tokens of a request summed over its iterations in a segment.
        d0_s, d1_s: seconds of an iteration, and seconds for each KV token of its batch.
        kv_tokens: memory.
    """

    arrivals_per_s: F8
    go_on: F8
    work: F8
    d0_s: float
    d1_s: float
    kv_tokens: int

    @property
    def segments(self) -> int:
        return self.work.size // self.arrivals_per_s.size


def least(demand: Demand, slack: float) -> tuple[int, I8]:
    """What came of it, and int64[G * S] thresholds, which are of use with `FOUND` alone.

    Args:
        demand: what arrives, and the engine.
        slack: k, standard deviations.
    """
    found = np.ones(demand.work.size, np.int64)
    if not demand.d1_s * arriving_work(demand) < 1.0:
        return OVERLOAD, found
    seconds = demand.d0_s
    for _ in range(MOST):
        held = 0.0
        for gate in range(found.size):
            if gate % demand.segments == 0:
                reach = float(demand.arrivals_per_s[gate // demand.segments]) * seconds
            else:
                share = float(demand.go_on[gate - 1])
                reach = share * float(found[gate - 1])
                reach += slack * math.sqrt(reach * (1.0 - share))
            found[gate] = math.floor(reach) + 1
            held += float(found[gate]) * float(demand.work[gate])
        longer = demand.d0_s + demand.d1_s * held
        if held > demand.kv_tokens:
            return NO_ROOM, found
        if longer == seconds:
            return FOUND, found
        if longer > LONGEST_S:
            break
        seconds = longer
    return OVERLOAD, found


def arriving_work(demand: Demand) -> float:
    """KV token-iterations that arrive in a second."""
    total, reach = 0.0, 0.0
    for gate in range(demand.work.size):
        if gate % demand.segments == 0:
            reach = float(demand.arrivals_per_s[gate // demand.segments])
        else:
            reach *= float(demand.go_on[gate - 1])
        total += reach * float(demand.work[gate])
    return total
