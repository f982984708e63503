"""The memory of `best` between decisions: sizes of arrivals, pace of admissions, waits, steering of the pool's mix of sizes.

Its words are int64. Sums and counts of recent things are halved from time to time, so that the latest count most.

* `CLOCK_BITS`: time of the last decision, the bits of a float64.
* `SEEN`, `OCTAVES`, `TOKENS`: number of recent arrivals; sums of their log2 sizes, in 1/4096, and of their tokens.
* `OFFSET`: the integral part of the steering, in 2^-20 of a mean request (see `steered`).
* `ARRIVED`, `NEWEST`: number of all arrivals considered; the largest id among them.
* `LEFT`: requests that the last decision considered, less the slots it could fill.
* `RUSH`, `RUSH_US`: recent admissions while requests waited; microseconds of that time.
* `LEAVING`, `STAYING`: KV tokens expected to leave within the horizon; all KV tokens (see `best.memory`).
* `LOOKS`, `WAITED`: number of recent decisions; sum of the requests that waited at them (see `best.memory`).
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
#: Share of the steering that adds to the integral while the whole pool is replaced once.
KEPT = 1.0 / 3.0
#: Largest size of the integral, in 2^-20 of a mean request. Where sizes are of two kinds, more would make the pool swing
#: between one kind and the other.
MOST_OFFSET = 1 << 20
#: Octaves from the mean log size to the mean size beyond which the pool's gap is measured relative to that distance.
WIDE = 1.5
#: The pool is steered only if it has more than this many requests for each slot to fill.
CHOICE = 2


@part
def octaves(tokens: float) -> int:
    """log2 of a size in integer units of 1/4096, linear between powers of two: 4096 for 2 tokens, 0 for 1 token or less."""
    return int(np.float64(max(tokens, 1.0)).view(np.int64) >> 40) - (1023 << 12)


@part
def since_last_s(now_s: float, memory: Ints) -> float:
    """Seconds from the last decision, whose time `take_note` kept in `memory`, to `now_s`; `now_s` itself at the first."""
    return now_s - np.int64(memory[CLOCK_BITS]).view(np.float64)


@part
def rush_s(waiting: int, slots: int, now_s: float, memory: Ints) -> float:
    """Update and return the recent mean seconds between admissions while requests wait; 0 before any had to wait.

    Times without waiting requests are excluded, as slots were free then. `waiting` is the number of requests that this
    decision considers, `slots` the number that it can admit. `LEFT`, `RUSH` and `RUSH_US` in `memory` are updated. Call it
    once a decision, before `take_note`.
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
    """Count the new ones of the oldest `waiting` requests in `memory`, with their sizes, and keep the time of this decision.

    Call it once a decision. A request is new if it became visible after the last decision, or if its id is larger than any
    counted before. The latter matters where the view shows only a window of the pool: a request new to the window may have
    been visible for longer. At the first decision all are new.
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
    """Mean wait in seconds of requests that found no free slot; inf while no more were admitted than run now.

    `mean_wait_s` is the mean over all requests. The first ones found free slots and did not wait. They are left out, and
    taken to be as many as run now. `waiting` and `running` are numbers of requests. Call it after `take_note`.
    """
    admitted = memory[ARRIVED] - waiting
    return mean_wait_s * (admitted / (admitted - running)) if admitted > running else math.inf


@part
def whole_wait_s(mean_wait_s: float, waiting: int, running: int, memory: Ints) -> float:
    """Mean wait in seconds that the oldest request's wait is compared with; inf while as many run as were ever admitted.

    In the long run it is the mean over all requests, including those that found free slots. At first nearly all requests
    found free slots, and any wait is long compared with their mean. So `mean_wait_s` is divided by 1 minus the cube of the
    share that found free slots. `waiting` and `running` are numbers of requests. Call it after `take_note`.
    """
    found_free = running / max(memory[ARRIVED] - waiting, 1)
    return mean_wait_s / (1.0 - found_free * found_free * found_free) if found_free < 1.0 else math.inf


@part
def steered(steer: float, waiting: int, slots: int, running: int, view: RuleView, memory: Ints) -> float:
    """How far to lower the targets, in mean requests, so that sizes in the pool become like those of arrivals.

    Below 0 the targets are raised. It is proportional and integral control of the pool's mean log size, with gain `steer`.
    The integral, `OFFSET` in `memory`, is updated only while requests run and more than `CHOICE` wait for each slot; else it
    alone is the result. Where sizes differ much, one large request moves the mean much. So where the mean size is more than
    `WIDE` octaves above the mean log size, the gap is measured relative to that distance. Call it after `take_note`.
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
