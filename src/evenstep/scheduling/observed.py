"""What a gated policy observes of its engine, and the thresholds it solves from that anew; reference.

Everything stands in the policy's memory, in `Words`; nothing is known of a request beyond the view. Observed are

* **arrivals** of each group: requests in the queue that arrived after the last one seen;
* **work** of those that leave a segment, and how many of them go on: who stands at the head of the next one and did not
  before has gone on, who is missing from the running requests has ended. What is kept of the running ones after a batch,
  less what is there before the next, is exactly what the ended ones took along: their number and their KV token-iterations,
  although nobody says which they were. Requests that were ever evicted are left out;
* **time**: a least-squares line of the seconds of iterations over the KV tokens of their batches, d0 and d1. An iteration
  after which nobody is left is not measured: the engine may have stood idle. While batches are all about as large, which
  full ones are, they say nothing of d1, and the line last known stays.

All sums are of the window of `solve_s` seconds that is going on and of the one before it, so what is older is forgotten.
Four times a window the thresholds are solved from them (`thresholds.least`), with the slack and, where that is refused,
without; they take the place of those in force if any differs by more than a tenth. Otherwise, and where the solver refuses,
the old ones stay. Neither token budget nor batch limit are looked at, and of the memory whether it holds a full batch.
`observed_kernel` is the compiled twin.

Source: WAIT sec. 7.1 names time-varying rates and conditions on them; how to estimate them is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.request import F8, I8
from evenstep.scheduling.thresholds import FOUND, NO_ROOM, OVERLOAD, Demand, least
from evenstep.scheduling.view import BatchDecision, EngineView

#: First words a gated policy keeps: how often the breaker acted, thresholds were changed, the solver found the load, and the
#: full batch, too large; then the thresholds in force.
BREAKS, SOLVED, NO_LOAD, NO_MEMORY, FORCE = range(5)
#: Words of one window: when it began, iterations, their KV tokens, seconds, KV tokens squared, products; then arrivals of
#: each group, who left each gate, who of them went on, their work.
START, COUNT, KV, SECONDS, SQUARES, PRODUCTS, ARRIVED = range(7)
#: Words beside the windows: whether it has begun, when to look next, the last arrival seen, when the last batch was formed
#: and how many KV tokens it held, whether a line is known, and the line.
BEGUN, LOOK, SEEN, SINCE, RAN, DRAWN, D0, D1 = range(8)
BESIDE = 8
#: Iterations before a line is drawn, variance of their KV tokens over the mean squared, requests that have ended before
#: anything is solved.
FIRST, SPREAD, KNOWN = 8.0, 1e-4, 8
#: Looks a window, and the share by which a threshold has to differ before all are changed.
LOOKS, MOVED = 4.0, 0.1


@dataclass(frozen=True, slots=True)
class Words:
    """Where things stand in the memory of a policy with so many groups and segments."""

    groups: int
    segments: int

    @property
    def gates(self) -> int:
        return self.groups * self.segments

    @property
    def last(self) -> int:
        """When each gate last let somebody run."""
        return FORCE + self.gates

    @property
    def beside(self) -> int:
        return FORCE + 2 * self.gates

    @property
    def window(self) -> int:
        """Words of one of the two windows; the one that is going on comes first."""
        return ARRIVED + self.groups + 3 * self.gates

    @property
    def members(self) -> int:
        """Who is in each segment; after them their work, and who stands at a segment's head."""
        return self.beside + BESIDE + 2 * self.window

    def size(self, solves: bool) -> int:
        """Words that are kept, with or without solving."""
        return self.members + 3 * self.gates if solves else self.beside


class Observed:
    """A policy's memory while one batch is formed: changed in place.

    Args:
        view: the engine.
        memory: int64[M], the policy's own copy.
        group: int64[N], of each request.
        ends: int64[S - 1], output tokens at which the next segment begins.
        words: where things stand.
        solve_s: seconds of a window.
        slack: of the thresholds, standard deviations.
    """

    def __init__(
        self, view: EngineView, memory: I8, group: I8, ends: I8, words: Words, solve_s: float, slack: float
    ) -> None:
        self.view, self.memory, self.kept = view, memory, memory.view(np.float64)
        self.group, self.ends, self.words = group, ends, words
        self.solve_s, self.slack = solve_s, slack
        self.now_window = words.beside + BESIDE
        self.fresh = view.evictions == 0

    def observe(self, given: I8) -> I8:
        """Learn what has happened since the last batch; int64[G * S], the thresholds in force.

        Args:
            given: int64[G * S], thresholds until some have been solved.
        """
        at, now = self.words.beside, self.view.now_s
        force = self.memory[FORCE : FORCE + given.size]
        there = self.there(np.zeros(self.view.left.size, np.int64), self.fresh & self.view.running)
        if not self.memory[at + BEGUN]:
            force[:] = given
            self.begin()
        else:
            self.count_arrivals()
            self.count_ended(there)
            self.count_iteration()
        self.keep(there)
        if now - float(self.kept[self.now_window + START]) >= self.solve_s:
            self.turn()
        if now >= float(self.kept[at + LOOK]):
            self.kept[at + LOOK] = now + self.solve_s / LOOKS
            self.look(force)
        return force

    def begin(self) -> None:
        """The first view: what is there by now says nothing of rates."""
        at, now, size = self.words.beside, self.view.now_s, self.words.window
        queue = self.view.arrival_s[int(self.view.running.sum()) :]
        self.memory[at + BEGUN] = 1
        self.kept[at + LOOK] = now + self.solve_s
        self.kept[at + SEEN] = queue[-1] if queue.size else now
        self.kept[self.now_window + START] = self.kept[self.now_window + size + START] = now

    def count_arrivals(self) -> None:
        """Who stands at the end of the queue and arrived after the last one seen."""
        first, seen_s = int(self.view.running.sum()), float(self.kept[self.words.beside + SEEN])
        for k in range(self.view.left.size - 1, first - 1, -1):
            if not self.view.arrival_s[k] > seen_s:
                break
            self.memory[self.now_window + ARRIVED + self.group[k]] += 1
        if self.view.left.size > first:
            self.kept[self.words.beside + SEEN] = max(seen_s, float(self.view.arrival_s[-1]))

    def count_ended(self, there: I8) -> None:
        """Who was there after the last batch and is not any more, who has reached a head, and the work that left."""
        words, left = self.words, self.now_window + ARRIVED + self.words.groups
        before = self.memory[words.members : words.members + 3 * words.gates].reshape(3, words.gates)
        members, work, heads = before - there
        gone = self.memory[left : left + 3 * words.gates].reshape(3, words.gates)
        gone[0] += members - heads
        gone[1] -= np.append(heads[1:], 0)
        gone[2] += work

    def count_iteration(self) -> None:
        """How long the last batch took, if somebody of it is still there."""
        at, window = self.words.beside, self.now_window
        tokens = int(self.memory[at + RAN])
        if not tokens or not self.view.running.any():
            return
        seconds = self.view.now_s - float(self.kept[at + SINCE])
        self.memory[window + COUNT] += 1
        self.memory[window + KV] += tokens
        self.kept[window + SECONDS] += seconds
        self.memory[window + SQUARES] += tokens * tokens
        self.kept[window + PRODUCTS] += tokens * seconds

    def turn(self) -> None:
        """The window that is going on becomes the one before."""
        size, first = self.words.window, self.now_window
        self.memory[first + size : first + 2 * size] = self.memory[first : first + size]
        self.memory[first : first + size] = 0
        self.kept[first + START] = self.view.now_s

    def look(self, force: I8) -> None:
        """Solve the thresholds, and change those in force, in place, where they differ by enough."""
        demand = self.demand()
        if demand is None:
            return
        code, found = least(demand, self.slack)
        if code != FOUND and self.slack > 0.0:
            code, found = least(demand, 0.0)
        if code == FOUND and (np.abs(found - force) > MOVED * force).any():
            self.memory[SOLVED] += 1
            force[:] = found
        self.memory[NO_LOAD] += code == OVERLOAD
        self.memory[NO_MEMORY] += code == NO_ROOM

    def demand(self) -> Demand | None:
        """What both windows say; None while they say too little."""
        words, size, first = self.words, self.words.window, self.now_window
        both: I8 = self.memory[first : first + size] + self.memory[first + size : first + 2 * size]
        times: F8 = self.kept[first : first + size] + self.kept[first + size : first + 2 * size]
        left, went_on, work = both[ARRIVED + words.groups :].reshape(3, words.gates)
        drawn = line(
            int(both[COUNT]), int(both[KV]), float(times[SECONDS]), int(both[SQUARES]), float(times[PRODUCTS])
        )
        if drawn is not None:
            self.memory[words.beside + DRAWN] = 1
            self.kept[words.beside + D0], self.kept[words.beside + D1] = drawn
        if not self.memory[words.beside + DRAWN] or (left - went_on).sum() < KNOWN:
            return None
        seconds = self.view.now_s - float(self.kept[first + size + START])
        known = np.maximum(left, 1)
        return Demand(
            both[ARRIVED : ARRIVED + words.groups] / seconds, np.where(left > 0, went_on / known, 0.0),
            np.where(left > 0, work / known, 0.0), float(self.kept[words.beside + D0]),
            float(self.kept[words.beside + D1]), self.view.kv_capacity,
        )  # fmt: skip

    def note(self, decision: BatchDecision) -> None:
        """Take note of the batch that is formed now, and of who is where after it."""
        at, view, ran = self.words.beside, self.view, decision.tokens > 0
        self.keep(self.there(decision.tokens, self.fresh & (view.running | ran) & ~decision.evict))
        self.kept[at + SINCE] = view.now_s
        self.memory[at + RAN] = (view.prefilled[ran] + decision.tokens[ran]).sum()

    def keep(self, there: I8) -> None:
        """Who is where, for the next view to be held against."""
        self.memory[self.words.members : self.words.members + there.size] = there.ravel()

    def there(self, tokens: I8, counted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I8:
        """int64[3, G * S]: how many are in each segment, their work in it so far, and how many stand at its head.

        Who runs a segment's last token now is in it still: whether it goes on or ends is seen afterwards.

        Args:
            tokens: int64[N], that are run now.
            counted: bool[N], who is counted.
        """
        view, found = self.view, np.zeros((3, self.words.gates), np.int64)
        first = 1 - view.first_decoded
        for k in np.flatnonzero(counted).tolist():
            reached, runs = int(view.produced[k]) if view.decoding[k] else -1, int(tokens[k])
            if runs:
                reached = reached + 1 if view.decoding[k] else first if runs == view.left[k] else -1
            segment = int(np.searchsorted(self.ends, reached, side="left" if runs else "right"))
            start = int(self.ends[segment - 1]) if segment else 0
            gate = int(self.group[k]) * self.words.segments + segment
            found[0, gate] += 1
            found[1, gate] += work_since(int(view.prompt_tokens[k]), start, reached, first)
            found[2, gate] += segment > 0 and reached == start
        return found


def work_since(prompt: int, start: int, reached: int, first: int) -> int:
    """KV tokens summed over the iterations that produced tokens start + 1 .. reached, and over the prefill if start is 0.

    Args:
        prompt: tokens.
        start: output tokens at which the segment begins.
        reached: output tokens so far; -1 while in the prefill.
        first: 1 where the prefill produces the first token, else 0.
    """
    begin = start + 1 if start > 0 else first
    count = max(reached - begin + 1, 0)
    return count * prompt + count * (begin + reached - 2 * first) // 2


def line(
    count: int, tokens: int, seconds: float, squares: int, products: float
) -> tuple[float, float] | None:
    """d0 and d1 of the least-squares line; the mean and 0 where larger batches last no longer, None where all are alike.

    Args:
        count: iterations.
        tokens, squares: sums of their KV tokens, and of these squared.
        seconds, products: sums of their seconds, and of these times KV tokens.
    """
    iterations, held = float(count), float(tokens)
    spread = iterations * float(squares) - held * held
    if iterations < FIRST or spread <= SPREAD * (held * held):
        return None
    rises = iterations * products - held * seconds
    if rises <= 0.0:
        return seconds / iterations, 0.0
    slope = rises / spread
    return max((seconds - slope * held) / iterations, 0.0), slope
