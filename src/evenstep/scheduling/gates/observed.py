"""Observations that a gated policy makes of its engine, and the thresholds it solves from them.

They are kept in the policy's memory, in the layout of `Words`, and come from the policy's view alone:

* **arrivals** of each group: requests in the queue that arrived after the last one seen;
* **work** of the requests that leave a segment, and how many of them go on. A request that stands at the head of the next
  segment, and did not before, has gone on. A request that is missing from the running ones has ended. Sums over the running
  requests are kept after each batch. The difference to the sums before the next batch is the number of ended requests and
  their work (KV tokens summed over iterations). Requests that were ever evicted are left out;
* **time**: a least-squares line of the seconds of iterations over the KV tokens of their batches, d0 and d1. An iteration
  that leaves no running request is not measured: the engine may have stood idle. Batches of about the same size, such as
  full ones, say nothing about d1. Then the last known line stays.

All sums are over the current window of `solve_s` seconds and the one before it; older data are forgotten. At most four times
a window the thresholds are solved from them (`thresholds.least`), with the slack and, where that is refused, without. They
replace the thresholds in force if any differs by more than a tenth. Otherwise, and where the solver refuses, the old ones
stay. The solver ignores token budget and batch limit, and requires that a full batch fits the memory.

Source: WAIT sec. 7.1 names time-varying rates and conditions on them; how to estimate them is ours.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Ints, part
from evenstep.scheduling.batch import keep, kept
from evenstep.scheduling.gates.thresholds import FOUND, NO_ROOM, OVERLOAD, Demand, least

#: First words of a gated policy's memory: how often the breaker acted, thresholds were changed, the solver found the load
#: too high, and the full batch too large; then the thresholds in force.
BREAKS, SOLVED, NO_LOAD, NO_MEMORY, FORCE = range(5)
#: Words of one window: when it began, iterations, their KV tokens, seconds, KV tokens squared, products; then arrivals of
#: each group, and for each gate the requests that left, how many of them went on, their work.
START, COUNT, KV, SECONDS, SQUARES, PRODUCTS, ARRIVED = range(7)
#: Words before the windows: whether observation has begun, when to solve next, the latest arrival seen, how many were seen;
#: the time and the KV tokens of the last batch; whether a line is known, and the line.
BEGUN, LOOK, SEEN, CAME, SINCE, RAN, DRAWN, D0, D1 = range(9)
BESIDE = 9
#: Iterations before a line is fitted, least variance of their KV tokens over the mean squared, and ended requests before
#: thresholds are solved.
FIRST, SPREAD, KNOWN = 8.0, 1e-4, 8
#: Times a window that thresholds are solved, and the share by which one has to differ before all are changed.
LOOKS, MOVED = 4.0, 0.1


class Words(NamedTuple):
    """The layout of a gated policy's memory: numbers of gates, and indices of words. A gate is a segment of a group."""

    groups: int  # number of groups
    segments: int  # number of segments of a group
    gates: int  # number of gates
    last: int  # index; for each gate, the time at which it last let a request run or was empty, as float64 bits
    beside: int  # index to which `BEGUN` .. `D1` are added
    window: int  # number of words of one of the two windows of observations, each of `solve_s` seconds
    now: int  # index of the current window; the previous one follows it
    members: int  # index; for each gate, how many requests run in it; then their work, then how many stand at its head


def words_of(groups: int, segments: int) -> Words:
    """The layout of a gated policy's memory for `groups` groups of `segments` segments each."""
    gates = groups * segments
    beside, window = FORCE + 2 * gates, ARRIVED + groups + 3 * gates
    now = beside + BESIDE
    return Words(groups, segments, gates, FORCE + gates, beside, window, now, now + 2 * window)


def size_of(words: Words, solve_s: float) -> int:
    """The number of int64 words of memory that a gated policy needs; more if thresholds are solved (`solve_s` > 0)."""
    return words.members + 3 * words.gates if solve_s > 0 else words.beside


#: `words_of` inside a rule.
lay_out = part(words_of)


@part
def segment_of(ends: Ints, reached: int, runs: bool) -> int:
    """The segment, from 0, of a request that has produced `reached` tokens.

    `ends` are the output tokens at which the next segments begin. A request with exactly so many is in the segment that
    begins there; with `runs`, in the one that ends there.
    """
    segment = 0
    while segment < ends.size and (reached > ends[segment] or (reached == ends[segment] and not runs)):
        segment += 1
    return segment


@part
def work_since(prompt: int, start: int, reached: int, first: int) -> int:
    """KV tokens of a request, summed over the iterations that produced its tokens start + 1 .. reached.

    `prompt` is in tokens. `start` is the output length at which the segment begins; if it is 0, the prefill counts, too.
    `reached` is -1 in the prefill. `first` is 1 if the prefill produces the first token, else 0.
    """
    begin = start + 1 if start > 0 else first
    count = max(reached - begin + 1, 0)
    return count * prompt + count * (begin + reached - 2 * first) // 2


@part
def settle(memory: Ints, words: Words, sign: int) -> None:
    """Add the sums over running requests to the window's sums of requests that left (`sign` 1), or subtract them (-1).

    The caller calls it with 1, counts the running requests anew, and calls it with -1. Together this adds the requests that
    have left their segment since, their work, and how many of them went on to the next.
    """
    left, gates = words.now + ARRIVED + words.groups, words.gates
    for gate in range(gates):
        at = words.members + gate
        heads = memory[at + 2 * gates]
        memory[left + gate] += sign * (memory[at] - heads)
        memory[left + 2 * gates + gate] += sign * memory[at + gates]
        if gate > 0:
            memory[left + gates + gate - 1] -= sign * heads


@part
def count_iteration(memory: Ints, words: Words, now_s: float, running: int) -> None:
    """Add the last batch's seconds and KV tokens to the current window's sums, unless it was empty or `running` is 0."""
    tokens, window = memory[words.beside + RAN], words.now
    if tokens == 0 or running == 0:
        return
    seconds = now_s - kept(memory, words.beside + SINCE)
    memory[window + COUNT] += 1
    memory[window + KV] += tokens
    keep(memory, window + SECONDS, kept(memory, window + SECONDS) + seconds)
    memory[window + SQUARES] += tokens * tokens
    keep(memory, window + PRODUCTS, kept(memory, window + PRODUCTS) + tokens * seconds)


@part
def turn(memory: Ints, words: Words, now_s: float) -> None:
    """Copy the current window over the previous one, which is lost, and start a new one at `now_s`."""
    for word in range(words.now, words.now + words.window):
        memory[word + words.window] = memory[word]
        memory[word] = 0
    keep(memory, words.now + START, now_s)


@part
def line(count: int, tokens: int, seconds: float, squares: int, products: float) -> tuple[bool, float, float]:
    """Fit a least-squares line of iteration seconds against KV tokens: d0 seconds plus d1 seconds a token.

    Args:
        count: iterations.
        tokens, squares: sums of their KV tokens, and of these squared.
        seconds, products: sums of their seconds, and of these times KV tokens.

    Returns: true if batches are enough, and differ enough, for a line; d0; d1, which is 0 if larger batches take no longer.
    """
    iterations, held = float(count), float(tokens)
    spread = iterations * float(squares) - held * held
    if iterations < FIRST or spread <= SPREAD * (held * held):
        return False, 0.0, 0.0
    rises = iterations * products - held * seconds
    if rises <= 0.0:
        return True, seconds / iterations, 0.0
    slope = rises / spread
    return True, max((seconds - slope * held) / iterations, 0.0), slope


@part
def set_demand(memory: Ints, words: Words, now_s: float, demand: Demand) -> bool:
    """Estimate arrival rates, shares that go on, and work from both windows, into `demand`; returns true if data suffice.

    Data suffice if a line of iteration times is known and `KNOWN` requests have ended; otherwise `demand` is unchanged. In
    any case the line is first fitted anew if possible, and stored in memory (`D0`, `D1`).
    """
    now, then, size, gates = words.now, words.now + words.window, words.window, words.gates
    drawn, d0_s, d1_s = line(
        memory[now + COUNT] + memory[then + COUNT],
        memory[now + KV] + memory[then + KV],
        kept(memory, now + SECONDS) + kept(memory, then + SECONDS),
        memory[now + SQUARES] + memory[then + SQUARES],
        kept(memory, now + PRODUCTS) + kept(memory, then + PRODUCTS),
    )
    if drawn:
        memory[words.beside + DRAWN] = 1
        keep(memory, words.beside + D0, d0_s)
        keep(memory, words.beside + D1, d1_s)
    left, ended = now + ARRIVED + words.groups, 0
    for gate in range(gates):
        for word in (left + gate, left + gate + size):
            ended += memory[word] - memory[word + gates]
    if memory[words.beside + DRAWN] == 0 or ended < KNOWN:
        return False
    seconds = now_s - kept(memory, now + size + START)
    for g in range(words.groups):
        arrived = memory[now + ARRIVED + g] + memory[now + size + ARRIVED + g]
        demand.arrivals_per_s[g] = arrived / seconds
    for gate in range(gates):
        gone = memory[left + gate] + memory[left + gate + size]
        went_on = memory[left + gates + gate] + memory[left + gates + gate + size]
        work = memory[left + 2 * gates + gate] + memory[left + 2 * gates + gate + size]
        demand.go_on[gate] = went_on / gone if gone > 0 else 0.0
        demand.work[gate] = work / gone if gone > 0 else 0.0
    return True


@part
def solve_anew(
    memory: Ints, words: Words, now_s: float, kv_capacity: int, slack: float, demand: Demand, found: Ints
) -> None:
    """Solve the thresholds; replace those in force (memory from `FORCE` on) if one differs by more than the share `MOVED`.

    If the solver refuses, it tries again without slack. Without enough data, or if refused again, the old ones stay. Changes
    and final refusals are counted in memory (`SOLVED`, `NO_LOAD`, `NO_MEMORY`). `demand` and `found` are working space.
    """
    if not set_demand(memory, words, now_s, demand):
        return
    d0_s, d1_s = kept(memory, words.beside + D0), kept(memory, words.beside + D1)
    code = least(demand, d0_s, d1_s, kv_capacity, slack, found)
    if code != FOUND and slack > 0.0:
        code = least(demand, d0_s, d1_s, kv_capacity, 0.0, found)
    if code == FOUND:
        differs = False
        for gate in range(words.gates):
            force = memory[FORCE + gate]
            differs = differs or abs(found[gate] - force) > MOVED * force
        if differs:
            memory[SOLVED] += 1
            for gate in range(words.gates):
                memory[FORCE + gate] = found[gate]
    memory[NO_LOAD] += 1 if code == OVERLOAD else 0
    memory[NO_MEMORY] += 1 if code == NO_ROOM else 0
