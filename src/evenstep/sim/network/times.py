"""The next event of a network: the engines' due times with their minima, and the next call to be sent."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.sim.network.model import Net


@part
def due_s(net: Net, e: int) -> float:
    """When the batch of engine e ends, or its policy is to be asked, in seconds; inf = not before a call comes."""
    clock = net.clock
    return net.due_s[clock.tree + clock.leaves + e - clock.first]


@part
def set_due(net: Net, e: int, at_s: float) -> None:
    """Set `due_s` of engine e, of the island that runs, to `at_s` in seconds, and update the minima above it."""
    tree, at = net.clock.tree, net.clock.leaves + e - net.clock.first
    net.due_s[tree + at] = at_s
    while at > 1:
        at >>= 1
        net.due_s[tree + at] = min(net.due_s[tree + 2 * at], net.due_s[tree + 2 * at + 1])


@part
def next_s(net: Net) -> float:
    """The time of the island's next event, in seconds; inf without one.

    `Clock.low` and `high` become the first and the last engine due then; `low` > `high` if only a call is due.
    """
    clock = net.clock
    at_s, release_s = net.due_s[clock.tree + 1], np.inf  # `release_s`: the next call of a new task, or released
    if clock.coming < clock.end_root:
        release_s = net.root_s[clock.coming]
    if clock.heap > 0:
        release_s = min(release_s, net.heap[0].time_s)
    clock.low, clock.high = clock.end, -1
    if release_s < at_s:
        return release_s
    if at_s < np.inf:
        low, high = 1, 1
        while low < clock.leaves:
            low, high = 2 * low, 2 * high + 1  # without branches, which the processor could not predict
            low += int(net.due_s[clock.tree + low] != at_s)
            high -= int(net.due_s[clock.tree + high] != at_s)
        clock.low, clock.high = clock.first + low - clock.leaves, clock.first + high - clock.leaves
    return at_s
