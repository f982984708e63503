"""Ours: admit what fits with room to grow, evict what costs least, the shortest first as long as age allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8
from evenstep.scheduling import pace
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView

#: The words that hold how many tokens have been decoded, and the mean wait of late, a float64's bits.
DECODED, WAIT = pace.MEMORY, pace.MEMORY + 1
#: Requests that have to be finished before their mean length counts.
KNOWN = 8
#: Newcomers shorter than every running prefill go ahead of these, with one part in so many of the budget.
AHEAD = 2
#: Share an admission has in the mean wait.
LATEST = 0.05


@dataclass(frozen=True, slots=True)
class Best:
    """Decodes, then prefill chunks, then the queue: admitted whole or not at all, with room left to grow.

    *Admission*: a request joins when its whole prefill fits beside what running prefills still need, and leaves room for
    those that decode: as long as n of them run, one leaves every n-th part of a mean output, in which all together grow
    by about one mean output, however large the memory is. Less is left where an eviction is cheap beside memory that
    stands empty: prompts that are quick to compute again, outputs that take long. Admitting by the chunk alone fills the
    memory with prompts that evict each other. *Order*: who was evicted comes first, then whoever has waited longer than
    `patience` times the mean wait of late, then the shortest of the oldest `window` (prompt, and the middle of its
    believed output bounds where there are any). Prefills that have fewer tokens left run first, newcomers among them
    with half of the budget at most. *Eviction*: whoever has computed least goes; that is the least to compute again.
    *Budget*: with `target_s`, as many tokens as last that long, learned from the iterations before; decodes always run.

    Args:
        room: mean outputs of KV memory that an admission leaves free while anything runs; the mean is learned from what
            has finished.
        watermark: share of the memory, 0..1, that it leaves instead while fewer than `KNOWN` have finished.
        patience: mean waits after which a request is overtaken no more; 0 = first come, first served.
        window: oldest waiting requests among which the shortest is looked for.
        target_s: seconds an iteration may last, the time between two tokens; 0 = the engine's token budget alone.

    Raises:
        InputError: a value out of range.

    Source: ours; the parts are compared in ``docs/explanation/our-scheduling.md``.
    """

    room: float = 1.0
    watermark: float = 0.05
    patience: float = 1.2
    window: int = 512
    target_s: float = 0.0

    memory_size: ClassVar[int] = pace.MEMORY + 2

    def __post_init__(self) -> None:
        if not 0 <= self.watermark < 1:
            raise InputError("best", "watermark", self.watermark, "a share of the memory, 0 <= watermark < 1")
        if self.window < 1:
            raise InputError("best", "window", self.window, "an integer >= 1")
        for name in ("room", "patience", "target_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError("best", name, value, "a finite number >= 0")

    def form_batch(self, view: EngineView) -> BatchDecision:
        memory = view.memory.copy()
        running = range(int(view.running.sum()))
        decodes = [k for k in running if view.decoding[k]]
        chunks = [k for k in running if not view.decoding[k]]
        filling = Filling(view)
        pace.learned(memory, view.now_s)
        if self.target_s > 0:
            filling.budget = pace.budget(memory, self.target_s, len(decodes), view.token_budget)
        reserve = self.reserve(view, memory)
        for request in decodes:
            run_or_evict_least(filling, request)
        if chunks and not filling.evicted.any():
            shortest = min(int(view.left[k]) for k in chunks)
            self.admit(filling, chunks, reserve, memory, shortest - 1, filling.budget // AHEAD)
        for request in sorted(chunks, key=lambda k: int(view.left[k])):
            run_or_evict_least(filling, request)
        if not filling.evicted.any():
            self.admit(filling, chunks, reserve, memory, UNLIMITED, UNLIMITED)
        memory[DECODED] += int((filling.tokens[decodes] > 0).sum())
        pace.note(memory, view.now_s, int(filling.tokens.sum()))
        return filling.decision(memory)

    def reserve(self, view: EngineView, memory: I8) -> int:
        """KV tokens an admission leaves free: mean outputs, as far as evictions cost more than empty memory."""
        finished, decoded = int(view.arrived.sum()) - view.left.size, int(view.memory[DECODED])
        if finished < KNOWN:
            return int(self.watermark * view.kv_capacity)
        output, share = decoded / finished, 1.0
        slope, _, iteration_s = pace.line(memory)
        if slope > 0.0 and output > 0.0:
            held = float(view.kv_capacity - view.kv_free)
            prompts = float(view.prompt_tokens[view.running].sum())
            dear = held * prompts * slope / (output * output * iteration_s)
            share = dear / (1.0 + dear)
        return int(self.room * output * share)

    def admit(
        self, filling: Filling, chunks: list[int], reserve: int, memory: I8, longest: int, spend: int
    ) -> None:
        """Waiting requests join one by one, as long as the next fits whole; `memory` learns how long they waited.

        The next must have `longest` tokens left at most, and all of them together `spend`.
        """
        view, kept = filling.view, memory.view(np.float64)
        oldest = range(filling.running, view.left.size)[: self.window]
        queue = [k for k in oldest if not filling.tokens[k]]
        while queue and filling.seats > 0 and filling.budget > 0:
            runs = filling.running + int((filling.tokens[filling.running :] > 0).sum())
            free = filling.free - promised(filling, chunks) - (reserve if runs else 0)
            if free <= 0:
                return
            mean_s = float(kept[WAIT])
            request = self.next_of(view, queue, mean_s)
            tokens, left = filling.most(request), int(view.left[request])
            if tokens < 1 or left > min(longest, spend) or filling.grows(request, left) > free:
                return
            filling.give(request, tokens)
            spend -= left
            queue.remove(request)
            if tokens < left:
                chunks.append(request)
            if view.evictions[request] == 0:
                kept[WAIT] = mean_s + LATEST * (view.now_s - float(view.arrival_s[request]) - mean_s)

    def next_of(self, view: EngineView, queue: list[int], mean_s: float) -> int:
        """Who joins next: the first that was evicted or is overdue, else the shortest, the oldest of equals."""
        shortest = queue[0]
        for request in queue:
            waited_s = view.now_s - float(view.arrival_s[request])
            if view.evictions[request] > 0 or 0.0 < self.patience * mean_s < waited_s or self.patience == 0:
                return request
            if size_of(view, request) < size_of(view, shortest):
                shortest = request
        return shortest


def size_of(view: EngineView, request: int) -> float:
    """Tokens a request is expected to bring."""
    return float(view.prompt_tokens[request]) + 0.5 * float(
        view.output_low[request] + view.output_high[request]
    )


def promised(filling: Filling, chunks: list[int]) -> int:
    """KV tokens that running prefills will need beyond what this batch gives them."""
    total, view = 0, filling.view
    for request in chunks:
        given = int(filling.tokens[request])
        now = filling.grows(request, given) if given else 0
        total += filling.grows(request, int(view.left[request])) - now
    return total


def run_or_evict_least(filling: Filling, request: int) -> None:
    """Run a running request; while it does not fit, whoever has computed least gives up its memory, the last of equals."""
    if filling.evicted[request]:
        return
    view = filling.view
    tokens = filling.most(request)
    while tokens > 0 and filling.grows(request, tokens) > filling.free:
        kept = [k for k in range(filling.running) if not filling.evicted[k]]
        victim = min(kept, key=lambda k: (int(view.prefilled[k]), -k))
        filling.evict(victim)
        if victim == request:
            return
        tokens = filling.most(request)
    if tokens > 0:
        filling.give(request, tokens)


policy = Best
