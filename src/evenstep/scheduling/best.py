"""Ours: admit what fits with room to grow, evict what costs least, the shortest first as long as age allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8
from evenstep.scheduling import foremost, knee, pace
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView

#: Words: float64 sums, fading, over who joined: size times seconds it waited, and size.
WAITED, SIZES = range(foremost.MEMORY, foremost.MEMORY + 2)
#: Requests that have to be finished before their mean length counts.
KNOWN = 8
#: Newcomers shorter than every running prefill go ahead of these, with one part in so many of the budget.
AHEAD = 2
#: Times as long as it takes to be overdue after which nobody passes a request that waits for memory.
PASSED = 4
#: Share of what is known of waits that an admission leaves; the last twenty count.
FADES = 0.95


@dataclass(frozen=True, slots=True)
class Best:
    """Decodes, then prefill chunks, then the queue: admitted whole or not at all, with room left to grow.

    *Admission*: a request joins when its whole prefill fits beside what running prefills still need, and leaves room for
    those that decode: as long as n of them run, one leaves every n-th part of a mean output, in which all together grow
    by about one mean output, however large the memory is. Less is left where an eviction is cheap beside memory that
    stands empty: prompts that are quick to compute again, outputs that take long. Admitting by the chunk alone fills the
    memory with prompts that evict each other. *Budget*: while requests decode, prefills run at the pace that delays them
    all least (`knee`), learned from the iterations before; with `target_s`, at most as many tokens as last that long.
    Decodes run in every iteration, except where prefill tokens beside them take clearly longer than alone (`knee.apart`)
    and `target_s` is 0: there prefills run first, by themselves. *Order*: who was evicted comes first, then whoever has
    waited longer than `patience` times the mean wait of late, then the shortest of the oldest `window` (prompt, and the
    middle of its believed output bounds where there are any). The mean is over tokens, not requests: it is about what
    first come, first served would make of it, whatever the order is. Prefills that have fewer tokens left run first,
    newcomers among them with half of the budget at most. *Passing*: while the next does not fit into the memory, the
    shortest that does goes ahead, where the others can grow during its prefill and the next will still fit when one that
    runs leaves: the largest where prefills cost nobody time, being held at the knee, else one of mean size. *Eviction*:
    whoever has computed least goes; that is the least to compute again.

    Args:
        room: mean outputs of KV memory that an admission leaves free while anything runs; the mean is learned from what
            has finished.
        watermark: share of the memory, 0..1, that it leaves instead while fewer than `KNOWN` have finished.
        patience: mean waits after which a request is overtaken no more, except by those that fit where it does not; not
            by these either after `PASSED` times as long; 0 = first come, first served.
        window: oldest waiting requests among which the shortest is looked for.
        paced: whether prefills are spread over iterations, or run apart from decodes, where that takes less time; else each
            runs as many tokens as the engine takes, beside decodes.
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
    paced: bool = True

    memory_size: ClassVar[int] = foremost.MEMORY + 2

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
        knee.learned(memory, view.now_s, filling.running)
        pace.learned(memory, view.now_s)
        if self.target_s > 0:
            filling.budget = pace.budget(memory, self.target_s, len(decodes), view.token_budget)
        most, apart = filling.budget, self.paced and self.target_s == 0 and knee.apart(memory)
        if not apart:
            for request in decodes:
                run_or_evict_least(filling, request)
        if self.paced:
            ran = int((filling.tokens > 0).sum())
            tokens = knee.budget(memory, ran, behind(filling, chunks), most)
            filling.budget = min(filling.budget, max(tokens - ran, knee.LEAST))
        reserve = self.reserve(view, memory)
        if chunks and not filling.evicted.any():
            shortest = min(int(view.left[k]) for k in chunks)
            self.admit(filling, chunks, reserve, memory, shortest - 1, filling.budget // AHEAD)
        for request in sorted(chunks, key=lambda k: int(view.left[k])):
            run_or_evict_least(filling, request)
        if not filling.evicted.any():
            self.admit(filling, chunks, reserve, memory, UNLIMITED, UNLIMITED)
        if apart and not filling.tokens.any():
            for request in decodes:
                run_or_evict_least(filling, request)
        tokens, decoded = int(filling.tokens.sum()), int((filling.tokens[decodes] > 0).sum())
        knee.note(memory, tokens - decoded, decoded)
        pace.note(memory, view.now_s, tokens)
        return filling.decision(memory)

    def reserve(self, view: EngineView, memory: I8) -> int:
        """KV tokens an admission leaves free: mean outputs, as far as evictions cost more than empty memory."""
        finished, decoded = int(view.arrived.sum()) - view.left.size, int(memory[knee.DECODED])
        if finished < KNOWN:
            return int(self.watermark * view.kv_capacity)
        output, share = decoded / finished, 1.0
        price_s, _, iteration_s = pace.line(memory)
        if memory[knee.PRICE] != 0:
            kept = memory.view(np.float64)
            price_s, iteration_s = (
                float(kept[knee.PRICE]),
                float(kept[pace.SECONDS]) / float(kept[pace.COUNT]),
            )
        if price_s > 0.0 and output > 0.0:
            held = float(view.kv_capacity - view.kv_free)
            prompts = float(view.prompt_tokens[view.running].sum())
            dear = held * prompts * price_s / (output * output * iteration_s)
            share = dear / (1.0 + dear)
        return int(self.room * output * share)

    def admit(
        self, filling: Filling, chunks: list[int], reserve: int, memory: I8, longest: int, spend: int
    ) -> None:
        """Waiting requests join one by one, as long as the next fits whole, or one that may pass it does.

        `memory` learns how long they waited. They must have `longest` tokens left at most, and all together `spend`.
        """
        view, kept = filling.view, memory.view(np.float64)
        oldest = range(filling.running, view.left.size)[: self.window]
        queue = [k for k in oldest if not filling.tokens[k]]
        joined = [k for k in range(filling.running, view.left.size) if filling.tokens[k]]
        if view.left.size == filling.running or filling.seats <= 0 or filling.budget <= 0:
            return
        if filling.free <= promised(filling, chunks):
            return
        foremost.recall(memory, view, filling.running, len(oldest), joined)
        while queue and filling.seats > 0 and filling.budget > 0:
            runs = filling.running + len(joined)
            free = filling.free - promised(filling, chunks)
            if memory[foremost.FEWEST] > min(longest, spend, free):
                return
            mean_s = float(kept[WAITED]) / float(kept[SIZES]) if kept[SIZES] > 0.0 else 0.0
            overdue = self.is_overdue(view, queue[0], mean_s)
            request = queue[0]
            if not overdue:  # the first that was evicted, else the shortest, the oldest of equals
                request = foremost.found(memory, view, filling.running, joined)
                if request < 0:
                    request = foremost.look_over(memory, view, filling.running, queue, joined)
            tokens, left = filling.most(request), int(view.left[request])
            if tokens < 1 or left > min(longest, spend):
                return
            whole = filling.grows(request, left)
            if whole > free - (reserve if runs else 0):
                room = free, reserve
                passes = self.who_passes(filling, queue, joined, request, memory, room, min(longest, spend))
                if passes < 0:
                    return
                request, tokens, left = passes, filling.most(passes), int(view.left[passes])
            filling.give(request, tokens)
            foremost.leave(memory, filling.running, request, joined)
            joined.append(request)
            spend -= left
            queue.remove(request)
            if tokens < left:
                chunks.append(request)
            if view.evictions[request] == 0:
                size, waited_s = (
                    size_of(view, request),
                    pace.quantised(view.now_s - float(view.arrival_s[request])),
                )
                kept[WAITED] = FADES * float(kept[WAITED]) + size * waited_s
                kept[SIZES] = FADES * float(kept[SIZES]) + size

    def who_passes(
        self, filling: Filling, queue: list[int], joined: list[int], blocked: int, memory: I8, room: tuple[int, int],
        longest: int,
    ) -> int:  # fmt: skip
        """The shortest of the queue that may go ahead of one that does not fit; -1 where nobody may.

        Args:
            room: KV tokens that are free, and how many of them an admission leaves.
            longest: tokens that it may have left.
        """
        free, reserve = room
        view, kept, running = filling.view, memory.view(np.float64), filling.running
        mean_s = float(kept[WAITED]) / float(kept[SIZES]) if kept[SIZES] > 0.0 else 0.0
        if pace.quantised(view.now_s - float(view.arrival_s[blocked])) >= PASSED * self.patience * mean_s:
            return -1

        def whole_of(request: int) -> int:
            return filling.grows(request, int(view.left[request]))

        spare = leaving(filling, 0.0 < float(kept[knee.PRICE]) <= knee.FREE) - (whole_of(blocked) - free)

        def fits(left: int, whole: int) -> bool:
            others = max(reserve, running * left // filling.budget)
            return left <= longest and whole <= spare and whole + others <= free

        fewest = int(memory[foremost.FEWEST])
        if fewest and not fits(fewest, fewest):
            return -1
        known = foremost.found(memory, view, running, joined)
        if known >= 0 and view.evictions[known] == 0 and fits(int(view.left[known]), whole_of(known)):
            return known
        foremost.look_over(memory, view, running, queue, joined)
        may = [k for k in queue if fits(int(view.left[k]), whole_of(k))]
        return min(may, key=lambda k: foremost.doubled(view, k), default=-1)

    def is_overdue(self, view: EngineView, request: int, mean_s: float) -> bool:
        """Whether a request, the oldest, has waited for so long that nobody overtakes it any more."""
        waited_s = pace.quantised(view.now_s - float(view.arrival_s[request]))
        return self.patience == 0 or 0.0 < self.patience * mean_s < waited_s


def leaving(filling: Filling, largest: bool) -> int:
    """KV tokens that one of those that decode gives back when it leaves: the largest, or one of mean size."""
    held = [int(filling.view.resident[k]) for k in range(filling.running) if filling.view.decoding[k]]
    if not held:
        return 0
    return max(held) if largest else sum(held) // len(held)


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


def behind(filling: Filling, chunks: list[int]) -> int:
    """Requests that could prefill as well as the first: running ones, and as many that wait as might fit."""
    view, others = filling.view, max(len(chunks) - 1, 0)
    waiting = view.left.size - filling.running
    if waiting == 0 or filling.evicted.any():
        return others
    free = max(filling.free - promised(filling, chunks), 0)
    return others + min(waiting, free // int(view.left[filling.running]))


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
