# pyright: basic
"""What a gated policy observes, compiled: the twin of `observed`, equal in bits."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.observed import (
    ARRIVED,
    BEGUN,
    BESIDE,
    COUNT,
    D0,
    D1,
    DRAWN,
    FIRST,
    FORCE,
    KNOWN,
    KV,
    LOOK,
    LOOKS,
    MOVED,
    NO_LOAD,
    NO_MEMORY,
    PRODUCTS,
    RAN,
    SECONDS,
    SEEN,
    SINCE,
    SOLVED,
    SPREAD,
    SQUARES,
    START,
)
from evenstep.scheduling.thresholds import FOUND, NO_ROOM, OVERLOAD
from evenstep.scheduling.thresholds_kernel import least
from evenstep.scheduling.view import (
    DECODING,
    EVICTIONS,
    FIRST_DECODED,
    LEFT,
    PRODUCED,
    PROMPT,
)


@borrowing_inlined
def kept_float(memory, word):
    """A float64 that is kept as bits."""
    return np.int64(memory[word]).view(np.float64)


@borrowing_inlined
def keep(memory, word, value):
    """Keep a float64 as bits."""
    memory[word] = np.float64(value).view(np.int64)


@borrowing_inlined
def window_at(gates):
    """Where the window that is going on begins."""
    return FORCE + 2 * gates + BESIDE


@borrowing_inlined
def window_words(groups, gates):
    """Words of a window."""
    return ARRIVED + groups + 3 * gates


@borrowing_inlined
def members_at(groups, gates):
    """Where it is kept who is in each segment; their work and the heads come after."""
    return window_at(gates) + 2 * window_words(groups, gates)


@borrowing
def segment_of(ends, ends_at, segments, reached, runs):
    """The segment of a request that has produced so many tokens; if it runs the last one now it is in it still."""
    segment = 0
    while segment < segments - 1 and (
        reached > ends[ends_at + segment] or (reached == ends[ends_at + segment] and not runs)
    ):
        segment += 1
    return segment


@borrowing
def work_since(prompt, start, reached, first):
    """KV tokens summed over the iterations that produced tokens start + 1 .. reached; see `observed.work_since`."""
    begin = start + 1 if start > 0 else first
    count = max(reached - begin + 1, 0)
    return count * prompt + count * (begin + reached - 2 * first) // 2


@borrowing
def add(memory, members, gates, group, segments, ends, ends_at, prompt, reached, runs, first, sign):
    """A request is counted, or taken away, where it is: itself, its work there, and whether it stands at the head."""
    segment = segment_of(ends, ends_at, segments, reached, runs)
    start = np.int64(ends[ends_at + segment - 1]) if segment > 0 else np.int64(0)
    gate = members + group * segments + segment
    memory[gate] += sign
    memory[gate + gates] += sign * work_since(prompt, start, reached, first)
    if segment > 0 and reached == start:
        memory[gate + 2 * gates] += sign


@borrowing
def begin(memory, groups, gates, now_s, solve_s, last_arrival_s):
    """The first view: what is there by now says nothing of rates."""
    beside, window = FORCE + 2 * gates, window_at(gates)
    memory[beside + BEGUN] = 1
    keep(memory, beside + LOOK, now_s + solve_s)
    keep(memory, beside + SEEN, last_arrival_s)
    keep(memory, window + START, now_s)
    keep(memory, window + window_words(groups, gates) + START, now_s)


@borrowing
def settle(memory, groups, gates, sign):
    """What was there after the last batch (sign 1) less what is there now (-1) has left, or reached a head."""
    left, members = window_at(gates) + ARRIVED + groups, members_at(groups, gates)
    for gate in range(gates):
        heads = memory[members + 2 * gates + gate]
        memory[left + gate] += sign * (memory[members + gate] - heads)
        memory[left + 2 * gates + gate] += sign * memory[members + gates + gate]
        if gate > 0:
            memory[left + gates + gate - 1] -= sign * heads


@borrowing
def forget_members(memory, groups, gates):
    """Nobody is counted."""
    members = members_at(groups, gates)
    for word in range(members, members + 3 * gates):
        memory[word] = 0


@borrowing
def count_iteration(memory, gates, now_s, R):
    """How long the last batch took, if somebody of it is still there."""
    beside, window = FORCE + 2 * gates, window_at(gates)
    tokens = memory[beside + RAN]
    if tokens == 0 or R == 0:
        return
    seconds = now_s - kept_float(memory, beside + SINCE)
    memory[window + COUNT] += 1
    memory[window + KV] += tokens
    keep(memory, window + SECONDS, kept_float(memory, window + SECONDS) + seconds)
    memory[window + SQUARES] += tokens * tokens
    keep(memory, window + PRODUCTS, kept_float(memory, window + PRODUCTS) + tokens * seconds)


@borrowing
def turn(memory, groups, gates, now_s):
    """The window that is going on becomes the one before."""
    window, size = window_at(gates), window_words(groups, gates)
    for word in range(window, window + size):
        memory[word + size] = memory[word]
        memory[word] = 0
    keep(memory, window + START, now_s)


@borrowing
def draw_line(memory, gates, count, tokens, seconds, squares, products):
    """d0 and d1 of the least-squares line are kept, where batches differ enough; see `observed.line`."""
    iterations, held = float(count), float(tokens)
    spread = iterations * float(squares) - held * held
    if iterations < FIRST or spread <= SPREAD * (held * held):
        return
    rises = iterations * products - held * seconds
    d0_s, d1_s = seconds / iterations, 0.0
    if rises > 0.0:
        d1_s = rises / spread
        d0_s = max((seconds - d1_s * held) / iterations, 0.0)
    beside = FORCE + 2 * gates
    memory[beside + DRAWN] = 1
    keep(memory, beside + D0, d0_s)
    keep(memory, beside + D1, d1_s)


@borrowing
def set_demand(memory, groups, gates, now_s, demand, at):
    """Rates, shares and work that both windows say, and the line of times; whether they say enough."""
    window, size = window_at(gates), window_words(groups, gates)
    left = window + ARRIVED + groups
    ended = 0
    for gate in range(gates):
        for word in (left + gate, left + gate + size):
            ended += memory[word] - memory[word + gates]
    then = window + size
    draw_line(
        memory, gates, memory[window + COUNT] + memory[then + COUNT], memory[window + KV] + memory[then + KV],
        kept_float(memory, window + SECONDS) + kept_float(memory, then + SECONDS),
        memory[window + SQUARES] + memory[then + SQUARES],
        kept_float(memory, window + PRODUCTS) + kept_float(memory, then + PRODUCTS),
    )  # fmt: skip
    if memory[FORCE + 2 * gates + DRAWN] == 0 or ended < KNOWN:
        return False
    seconds = now_s - kept_float(memory, window + size + START)
    for g in range(groups):
        arrived = memory[window + ARRIVED + g] + memory[window + size + ARRIVED + g]
        demand[at + g] = arrived / seconds
    for gate in range(gates):
        gone = memory[left + gate] + memory[left + gate + size]
        went_on = memory[left + gates + gate] + memory[left + gates + gate + size]
        work = memory[left + 2 * gates + gate] + memory[left + 2 * gates + gate + size]
        demand[at + groups + gate] = went_on / gone if gone > 0 else 0.0
        demand[at + groups + gates + gate] = work / gone if gone > 0 else 0.0
    return True


@borrowing
def solve_anew(
    memory,
    groups,
    segments,
    now_s,
    kv_capacity,
    slack,
    demand,
    at,
    space,
    first_gate,
    numbers,
    threshold,
    found,
):
    """Solve the thresholds, and change those in force where they differ by enough."""
    gates = groups * segments
    if not set_demand(memory, groups, gates, now_s, demand, at):
        return
    beside = FORCE + 2 * gates
    d0_s, d1_s = kept_float(memory, beside + D0), kept_float(memory, beside + D1)
    code = least(demand, at, groups, segments, d0_s, d1_s, kv_capacity, slack, space, found)
    if code != FOUND and slack > 0.0:
        code = least(demand, at, groups, segments, d0_s, d1_s, kv_capacity, 0.0, space, found)
    if code == FOUND:
        differs = False
        for gate in range(gates):
            force = space[first_gate + numbers * gate + threshold]
            differs = differs or abs(space[found + gate] - force) > MOVED * force
        if differs:
            memory[SOLVED] += 1
            for gate in range(gates):
                memory[FORCE + gate] = space[found + gate]
    memory[NO_LOAD] += 1 if code == OVERLOAD else 0
    memory[NO_MEMORY] += 1 if code == NO_ROOM else 0


@borrowing
def is_time(memory, gates, now_s, solve_s):
    """Whether to look at the thresholds now; the next time is set."""
    beside = FORCE + 2 * gates
    if now_s < kept_float(memory, beside + LOOK):
        return False
    keep(memory, beside + LOOK, now_s + solve_s / LOOKS)
    return True


@borrowing
def note_one(memory, groups, segments, ends, ends_at, limits, rows, row, group, tokens, was_there, stays):
    """A request runs so many tokens, or is evicted: where it was and where it will be."""
    if rows[EVICTIONS, row] > 0:
        return
    gates, first = groups * segments, 1 - limits[FIRST_DECODED]
    members, prompt = members_at(groups, gates), rows[PROMPT, row]
    reached = rows[PRODUCED, row] if rows[DECODING, row] == 1 else -1
    if was_there:
        add(memory, members, gates, group, segments, ends, ends_at, prompt, reached, False, first, -1)
    if stays:
        if rows[DECODING, row] == 1:
            reached += 1
        elif tokens == rows[LEFT, row]:
            reached = first
        add(memory, members, gates, group, segments, ends, ends_at, prompt, reached, True, first, 1)
