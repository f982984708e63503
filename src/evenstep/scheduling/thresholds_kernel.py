# pyright: basic
"""The least thresholds of gates, compiled: the twin of `thresholds`, equal in bits.

Rates, shares and work stand in one float64 array: G rates from `at` on, then G * S shares, then G * S of work.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import borrowing
from evenstep.scheduling.thresholds import FOUND, LONGEST_S, MOST, NO_ROOM, OVERLOAD


@borrowing
def arriving_work(demand, at, groups, segments):
    """KV token-iterations that arrive in a second."""
    shares, work = at + groups, at + groups + groups * segments
    total, reach = 0.0, 0.0
    for gate in range(groups * segments):
        if gate % segments == 0:
            reach = demand[at + gate // segments]
        else:
            reach *= demand[shares + gate - 1]
        total += reach * demand[work + gate]
    return total


@borrowing
def least(demand, at, groups, segments, d0_s, d1_s, kv_tokens, slack, found, first):
    """What came of it; thresholds of the gates are written into `found` from `first` on."""
    shares, work = at + groups, at + groups + groups * segments
    if not d1_s * arriving_work(demand, at, groups, segments) < 1.0:
        return OVERLOAD
    seconds = d0_s
    for _ in range(MOST):
        held = 0.0
        for gate in range(groups * segments):
            if gate % segments == 0:
                reach = demand[at + gate // segments] * seconds
            else:
                share = demand[shares + gate - 1]
                reach = share * float(found[first + gate - 1])
                reach += slack * math.sqrt(reach * (1.0 - share))
            found[first + gate] = np.int64(math.floor(reach)) + 1
            held += float(found[first + gate]) * demand[work + gate]
        longer = d0_s + d1_s * held
        if held > kv_tokens:
            return NO_ROOM
        if longer == seconds:
            return FOUND
        if longer > LONGEST_S:
            break
        seconds = longer
    return OVERLOAD
