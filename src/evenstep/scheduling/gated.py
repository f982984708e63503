"""Gates: requests of a group run together, segment by segment, once enough of them stand at a segment's head.

A request's segment is how many of the segments' `ends` its output has reached; its stage within is the tokens produced,
and before that the prefill. Segment s of a group is open while the heads of segments 0..s all hold their thresholds; an
open segment runs at most its threshold of requests at each stage, the first admitted first, and all others pause with
what they hold. Three rules are ours, for bursts end and memory does:

* a segment that has stood still for `max_hold_s` while somebody was in it is opened;
* a request that was evicted passes all gates;
* the breaker: if an open gate finds no memory and nothing else would run, the deepest segment runs whatever the gates say.

With `solve_s` the thresholds are solved anew from what the policy observes (`observed`); the given ones are in force until
then. A threshold then limits only how many enter a segment in a batch. With thresholds that stay this is the same, for no
stage ever holds more than entered together; but those that entered under a higher one would queue at every stage.

WAIT is the case of one segment and a group a type. `gated_kernel` is the compiled twin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.scheduling.filling import Filling, run_or_evict
from evenstep.scheduling.observed import BREAKS, Observed, Words
from evenstep.scheduling.view import BatchDecision, EngineView

#: Names of the first words a gated policy keeps, without and with solving; `counts_of` adds the thresholds in force.
COUNTS = ("gates_broken",)
SOLVING_COUNTS = ("gates_broken", "thresholds_changed", "solve_refused_load", "solve_refused_memory")


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """The gates of one moment; N requests, G groups of S segments, gate g * S + s.

    Args:
        thresholds: int64[G * S], requests at a segment's head, and at each of its stages in a batch.
        ends: int64[S - 1], output tokens at which the next segment begins, ascending.
        group: int64[N], of each request of the view.
        max_hold_s: seconds.
        solve_s: seconds of a window of what is observed; 0 = the thresholds stay as they are.
        slack: of solved thresholds, standard deviations.
    """

    thresholds: I8
    ends: I8
    group: I8
    max_hold_s: float
    solve_s: float = 0.0
    slack: float = 0.0

    @property
    def words(self) -> Words:
        segments = self.ends.size + 1
        return Words(self.thresholds.size // segments, segments)

    def gate(self, view: EngineView) -> I8:
        """int64[N], the gate each request stands behind."""
        segment = np.searchsorted(self.ends, view.produced, side="right")
        return self.group * (self.ends.size + 1) + segment

    def is_head(self, view: EngineView) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """bool[N], whether a request stands at the head of its segment and has to wait for others there."""
        at_end = np.isin(view.produced, self.ends) & view.decoding
        return (at_end | (~view.decoding & (view.produced == 0))) & (view.evictions == 0)


def batch_behind_gates(view: EngineView, gates: Gates) -> BatchDecision:
    """One batch of those that the gates let through."""
    memory = view.memory.copy()
    if gates.solve_s == 0:
        return Gated(view, gates, memory).batch()
    observed = Observed(view, memory, gates.group, gates.ends, gates.words, gates.solve_s, gates.slack)
    in_force = replace(gates, thresholds=observed.observe(gates.thresholds))
    decision = Gated(view, in_force, memory).batch()
    observed.note(decision)
    return decision


def counts_of(gates: int, solve_s: float) -> tuple[str, ...]:
    """Names of the first words a policy with so many gates keeps; the thresholds in force are told where they are solved."""
    if solve_s == 0:
        return COUNTS
    return (*SOLVING_COUNTS, *(f"threshold_{gate + 1}" for gate in range(gates)))


def check_gates(where: str, thresholds: tuple[int, ...], max_hold_s: float, solve_s: float) -> None:
    """Refuse thresholds below 1 and times that are none.

    Raises:
        InputError: naming the field.
    """
    if not thresholds or min(thresholds) < 1 or any(n != int(n) for n in thresholds):
        raise InputError(where, "thresholds", thresholds, "at least one integer, each >= 1")
    if math.isnan(max_hold_s) or max_hold_s < 0:
        raise InputError(where, "max_hold_s", max_hold_s, "a number of seconds >= 0")
    if not (math.isfinite(solve_s) and solve_s >= 0):
        raise InputError(
            where, "solve_s", solve_s, "a finite number of seconds >= 0", "0 keeps the thresholds as given."
        )


class Gated:
    """One batch being formed behind gates."""

    def __init__(self, view: EngineView, gates: Gates, memory: I8) -> None:
        self.view, self.gates, self.filling, self.memory = view, gates, Filling(view), memory
        self.gate, self.heads = gates.gate(view), gates.is_head(view)
        self.seen = self.filling.running + self.looked_at()
        last, count = gates.words.last, gates.thresholds.size
        self.last: F8 = memory.view(np.float64)[last : last + count]
        members = [np.flatnonzero(self.gate[: self.seen] == k) for k in range(count)]
        self.is_empty = [one.size == 0 for one in members]
        oldest = [view.arrival_s[one].min(initial=math.inf) for one in members]
        self.opens_s = [
            max(last, first) + gates.max_hold_s for last, first in zip(self.last, oldest, strict=True)
        ]
        self.is_open = self.opened()
        self.taken: dict[tuple[int, int], int] = {}
        self.ran = np.zeros(count, np.bool_)

    def looked_at(self) -> int:
        """How far down the queue it looks: until every group has its first threshold of fresh requests waiting."""
        running, segments = self.filling.running, self.gates.ends.size + 1
        missing = self.gates.thresholds[::segments].copy()
        for k in range(running, self.view.left.size):
            if not (missing > 0).any():
                return k - running
            missing[self.gates.group[k]] -= self.heads[k]
        return self.view.left.size - running

    def opened(self) -> list[bool]:
        """Which gates are open."""
        heads = np.bincount(self.gate[: self.seen][self.heads[: self.seen]], minlength=len(self.is_empty))
        found, by_rule = list[bool](), False
        for k, threshold in enumerate(self.gates.thresholds.tolist()):
            is_first = k % (self.gates.ends.size + 1) == 0
            by_rule = bool(heads[k] >= threshold) and (is_first or by_rule)
            found.append(by_rule or (not self.is_empty[k] and self.view.now_s >= self.opens_s[k]))
        return found

    def passes(self, request: int) -> bool:
        """Whether a request is in the batch; its place in its stage is taken."""
        if self.view.evictions[request] > 0:
            return True
        gate = int(self.gate[request])
        stage = (gate, int(self.view.produced[request]) if self.view.decoding[request] else -1)
        if not self.is_open[gate]:
            return False
        if self.gates.solve_s > 0 and not self.heads[request]:
            return True
        if self.taken.get(stage, 0) >= self.gates.thresholds[gate]:
            return False
        self.taken[stage] = self.taken.get(stage, 0) + 1
        return True

    def batch(self) -> BatchDecision:
        filling, memory, wake_s = self.filling, self.memory, math.inf
        for request in sorted(range(filling.running), key=lambda k: not self.view.decoding[k]):
            if self.passes(request):
                self.run(request)
        if not filling.evicted.any():
            for request in range(filling.running, self.seen):
                if self.passes(request):
                    if not filling.offer(request):
                        break
                    self.ran[self.gate[request]] = True
        if not filling.tokens.any():
            waits = [s for s, empty in zip(self.opens_s, self.is_empty, strict=True) if not empty]
            if filling.evicted.any() or any(
                is_open and not empty for is_open, empty in zip(self.is_open, self.is_empty, strict=True)
            ):
                memory[BREAKS] += 1
                self.break_open()
            else:
                wake_s = min(waits, default=math.inf)
        self.last[self.ran | self.is_empty] = self.view.now_s
        return filling.decision(memory, wake_s)

    def run(self, request: int) -> None:
        run_or_evict(self.filling, request)
        if self.filling.tokens[request] > 0:
            self.ran[self.gate[request]] = True

    def break_open(self) -> None:
        """The deepest segment runs, or what is left of it."""
        filling, segments = self.filling, self.gates.ends.size + 1
        while not filling.tokens.any():
            kept = [k for k in range(filling.running) if not filling.evicted[k]]
            if not kept:
                return
            deepest = max(int(self.gate[k]) % segments for k in kept)
            for request in kept:
                if self.gate[request] % segments == deepest:
                    self.run(request)
