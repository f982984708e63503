"""Gates: requests of a group run together, segment by segment, once enough of them stand at a segment's head.

A request's segment is how many of the segments' `ends` its output has reached; its stage within is the tokens produced,
and before that the prefill. Segment s of a group is open while the heads of segments 0..s all hold their thresholds; an
open segment runs at most its threshold of requests at each stage, the first admitted first, and all others pause with
what they hold. Three rules are ours, for bursts end and memory does:

* a segment that has stood still for `max_hold_s` while somebody was in it is opened;
* a request that was evicted passes all gates;
* the breaker: if an open gate finds no memory and nothing else would run, the deepest segment runs whatever the gates say.

WAIT is the case of one segment and a group a type. `gated_kernel` is the compiled twin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.request import F8, I8
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.giving_way import decodes_first
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import BatchDecision, EngineView

#: Words a gated policy keeps: how often the breaker acted, then the time each gate last let somebody run.
BREAKS, LAST = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """The gates of one moment; N requests, G groups of S segments, gate g * S + s.

    Args:
        thresholds: int64[G * S], requests at a segment's head, and at each of its stages in a batch.
        ends: int64[S - 1], output tokens at which the next segment begins, ascending.
        group: int64[N], of each request of the view.
        max_hold_s: seconds.
    """

    thresholds: I8
    ends: I8
    group: I8
    max_hold_s: float

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
    return Gated(view, gates).batch()


class Gated:
    """One batch being formed behind gates."""

    def __init__(self, view: EngineView, gates: Gates) -> None:
        self.view, self.gates, self.filling = view, gates, Filling(view)
        self.gate, self.heads = gates.gate(view), gates.is_head(view)
        self.seen = self.filling.running + self.looked_at()
        self.last: F8 = view.memory[LAST:].view(np.float64)
        count = gates.thresholds.size
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
        if not self.is_open[gate] or self.taken.get(stage, 0) >= self.gates.thresholds[gate]:
            return False
        self.taken[stage] = self.taken.get(stage, 0) + 1
        return True

    def batch(self) -> BatchDecision:
        filling = self.filling
        for request in decodes_first(self.view, list(range(filling.running))):
            if self.passes(request):
                self.run(request)
        if not filling.evicted.any():
            for request in range(filling.running, self.seen):
                if self.passes(request):
                    if not filling.offer(request):
                        break
                    self.ran[self.gate[request]] = True
        memory, wake_s = self.view.memory.copy(), math.inf
        if not filling.tokens.any():
            waits = [s for s, empty in zip(self.opens_s, self.is_empty, strict=True) if not empty]
            if filling.evicted.any() or any(
                is_open and not empty for is_open, empty in zip(self.is_open, self.is_empty, strict=True)
            ):
                memory[BREAKS] += 1
                self.break_open()
            else:
                wake_s = min(waits)
        now = np.array([self.view.now_s]).view(np.int64)[0]
        memory[LAST:][self.ran | self.is_empty] = now
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
