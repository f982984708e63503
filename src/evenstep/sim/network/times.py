"""The next event of a network: the heap of released calls, and the engines' due times with their minima."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.sim.network.model import Net


@part
def is_before(net: Net, i: int, j: int) -> bool:
    """Whether entry i of the heap of released calls comes before entry j: by time, equal times by row."""
    one_s, other_s = net.heap_s[i], net.heap_s[j]
    return one_s < other_s or (one_s == other_s and net.heap_row[i] < net.heap_row[j])


@part
def swap(net: Net, i: int, j: int) -> None:
    """Exchange two entries of the heap of released calls."""
    net.heap_s[i], net.heap_s[j] = net.heap_s[j], net.heap_s[i]
    net.heap_row[i], net.heap_row[j] = net.heap_row[j], net.heap_row[i]


@part
def push(net: Net, at_s: float, row: int) -> None:
    """Add the call in `row`, to be sent at `at_s`, to the heap of released calls, which has room for all calls."""
    at = net.clock.heap
    net.clock.heap += 1
    net.heap_s[at], net.heap_row[at] = at_s, row
    while at > 0 and is_before(net, at, (at - 1) >> 1):
        swap(net, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@part
def pop(net: Net) -> None:
    """Remove the first call, entry 0, from the heap of released calls; it must not be empty."""
    net.clock.heap -= 1
    end, at = net.clock.heap, 0
    swap(net, 0, end)
    while 2 * at + 1 < end:
        child = 2 * at + 1
        if child + 1 < end and is_before(net, child + 1, child):
            child += 1
        if not is_before(net, child, at):
            break
        swap(net, child, at)
        at = child


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
        release_s = min(release_s, net.heap_s[0])
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
