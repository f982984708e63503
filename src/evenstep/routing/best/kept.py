"""The memory of `best` between decisions: sizes of arrivals, pace of admissions, waits, steering.

The words are int64. Sums are halved now and then, so that they speak of the latest requests or decisions.

* `CLOCK_BITS`: time of the last decision, the bits of a float64.
* `SEEN`, `OCTAVES`, `TOKENS`: number of the latest arrivals; sums of their log2 sizes, in 1/4096, and of their tokens.
* `OFFSET`: what the level has been steered by, in 2^-20 of a mean request.
* `ARRIVED`, `NEWEST`: number of all arrivals; the largest id among them.
* `LEFT`: requests that the last decision left waiting.
* `RUSH`, `RUSH_US`: admissions while requests waited; microseconds in which requests waited.
* `LEAVING`, `STAYING`: KV tokens expected to leave within the horizon; all KV tokens (see `best.memory`).
* `LOOKS`, `WAITED`: number of the latest decisions; sum of the requests that waited at them (see `best.memory`).
* `OWED` and the words after it: the slots that classes are owed (see `best.shares`).
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import Ints, part
from evenstep.routing.rules import RuleView

CLOCK_BITS, SEEN, OCTAVES, TOKENS, OFFSET, ARRIVED, NEWEST, LEFT = range(8)
RUSH, RUSH_US, LEAVING, STAYING, LOOKS, WAITED, OWED = range(8, 15)
#: Classes are counted modulo this; two classes with the same remainder share a counter.
COUNTERS = 64
#: Words that are kept.
MEMORY = OWED + COUNTERS
#: Arrivals after which their sums are halved.
MOST_SEEN = 4096
#: Share of the steering that is kept, for a pool that is replaced once.
KEPT = 1.0 / 3.0
#: Most steering that is kept, 2^-20 of a mean request each. Where sizes are of two kinds, more would swing between a pool of
#: one kind and of the other.
MOST_OFFSET = 1 << 20
#: Octaves that the mean size may lie above the mean log size; beyond, the pool is measured in that distance.
WIDE = 1.5
#: The pool is steered only if it has more than this many requests for each slot to fill.
CHOICE = 2


@part
def octaves(tokens: float) -> int:
    """log2 of a size in whole units of 1/4096, linear between powers of two: 4096 for 2 tokens; 0 for 1 token or less."""
    return int(np.float64(max(tokens, 1.0)).view(np.int64) >> 40) - (1023 << 12)


@part
def since_last_s(now_s: float, memory: Ints) -> float:
    """Seconds from the last decision, whose time `take_note` kept in `memory`, to `now_s`; `now_s` itself at the first."""
    return now_s - np.int64(memory[CLOCK_BITS]).view(np.float64)


@part
def rush_s(waiting: int, slots: int, now_s: float, memory: Ints) -> float:
    """Recent mean of the seconds between admissions while requests wait; 0 before any had to wait.

    Times without waiting requests are excluded: slots were free then. Call it once a decision, before `take_note`.

    Args:
        waiting: requests that this decision considers.
        slots: requests that it admits.
        memory: what the policy keeps; `RUSH`, `RUSH_US` and `LEFT` are updated.
    """
    if memory[LEFT] > 0:
        elapsed = since_last_s(now_s, memory)
        memory[RUSH] += slots
        memory[RUSH_US] += np.int64(elapsed * 1000000.0)
        if memory[RUSH] > MOST_SEEN:
            memory[RUSH] //= 2
            memory[RUSH_US] //= 2
    memory[LEFT] = waiting - slots
    return memory[RUSH_US] / (1000000.0 * max(memory[RUSH], 1))


@part
def take_note(waiting: int, view: RuleView, memory: Ints) -> None:
    """Add the new requests to the numbers and sizes of arrivals in `memory`, and keep the time of this decision there.

    Call it once a decision. It looks at the first `waiting` requests. One is new if it became visible after the last
    decision, or if its id is larger than any counted before: where only a window of the pool is shown, it may have been
    visible for longer. At the first decision all are new.
    """
    elapsed = since_last_s(view.now_s, memory)
    is_first, newest = memory[SEEN] == 0, memory[NEWEST]
    memory[CLOCK_BITS] = np.float64(view.now_s).view(np.int64)
    for i in range(waiting):
        request = view.waiting_id[i]
        if is_first or view.now_s - view.since_s[i] < elapsed or request > newest:
            size = view.waiting_load[i]
            memory[SEEN] += 1
            memory[ARRIVED] += 1
            memory[OCTAVES] += octaves(size)
            memory[TOKENS] += np.int64(size)
            memory[NEWEST] = max(memory[NEWEST], request)
    if memory[SEEN] > MOST_SEEN:
        memory[SEEN] //= 2
        memory[OCTAVES] //= 2
        memory[TOKENS] //= 2


@part
def usual_wait_s(mean_wait_s: float, waiting: int, running: int, memory: Ints) -> float:
    """Mean wait in seconds of requests that found the fleet full; inf while no more were admitted than run now.

    The first requests found free slots and did not wait: as many as run now are excluded from the mean. Call it after
    `take_note`. `waiting` and `running` are numbers of requests.
    """
    admitted = memory[ARRIVED] - waiting
    return mean_wait_s * (admitted / (admitted - running)) if admitted > running else math.inf


@part
def whole_wait_s(mean_wait_s: float, waiting: int, running: int, memory: Ints) -> float:
    """Mean wait in seconds that the oldest request's wait is compared with; inf while as many run as were ever admitted.

    In the long run it is the mean over all requests, including those that found free slots. At first these are nearly all,
    and any wait is long compared with their mean: they are excluded, by the cube of their share.
    """
    found_free = running / max(memory[ARRIVED] - waiting, 1)
    return mean_wait_s / (1.0 - found_free * found_free * found_free) if found_free < 1.0 else math.inf


@part
def steered(steer: float, waiting: int, slots: int, running: int, view: RuleView, memory: Ints) -> float:
    """How far targets are lowered, in mean requests, so that sizes in the pool become like those of arrivals.

    Below 0 they are raised. Proportional and integral control of the mean log size of the pool; the integral, `OFFSET` in
    `memory`, rests while there is no choice. Where sizes are far apart, one large request more moves that mean by much. So
    the gap is measured in spreads where the spread is more than `WIDE` octaves: how far the mean size lies above the mean
    log size. Call it after `take_note`.
    """
    gap = 0.0
    if waiting > CHOICE * slots and running > 0:
        pool = np.int64(0)
        for i in range(waiting):
            pool += octaves(view.waiting_load[i])
        usual = memory[OCTAVES] / memory[SEEN]
        spread = (octaves(memory[TOKENS] / memory[SEEN]) - usual) / 4096.0
        gap = (usual - pool / waiting) / 4096.0 / max(spread / WIDE, 1.0)
        more = np.int64(gap * steer * KEPT * 1048576.0 * slots / waiting)
        memory[OFFSET] = min(max(memory[OFFSET] + more, -MOST_OFFSET), MOST_OFFSET)
    return gap * steer + memory[OFFSET] / 1048576.0
