"""One rank of an emulated engine: its queue, its slots, its memory, and the plan of each step.

A step is planned as in vLLM. Running sequences come first, oldest first: each decodes one token or continues its prompt. If
memory is short, the newest running sequence is evicted to the head of the queue; later its prompt and output are prefilled
again. If no sequence was evicted, the queue is admitted in order while slots, token budget and memory for the whole prompt
allow. Prompts are cut where the step's token budget ends (chunked prefill). The step that computes the last part of a
prompt produces the first token.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field

from evenstep.cost.batch import add
from evenstep.emulator.memory import Memory
from evenstep.request import F8


@dataclass(slots=True, eq=False)
class Sequence:
    """One sequence of an answer, waiting or running on a rank."""

    key: int  # by which the host knows it
    prompt: int  # prompt tokens
    max_tokens: int  # most output tokens
    min_tokens: int = 0  # output tokens before which it does not end by itself
    ends: bool = False  # whether the model may end it before `max_tokens`
    stop_ids: frozenset[int] = frozenset()  # token ids that end it
    state: int = 0  # the model's state after all tokens so far (see `tokens`)
    salt: int = 0  # salt of its draws of tokens; another salt gives other tokens, 0 = greedy
    # states at the end of the full blocks of prompt and output, which identify them; empty without prefix caching
    chain: list[int] = field(default_factory=list[int])
    leased: bool = False  # whether its blocks are kept after its end for another engine to fetch
    fetched: int = 0  # prompt tokens whose KV came from another engine
    begun: int = 0  # the model's state after the prompt, which identifies the KV that another engine fetches
    total: int = 0  # prompt and output tokens so far
    resident: int = 0  # tokens with KV in memory, those of the planned step included
    private: int = 0  # blocks that it holds alone
    held: list[int] = field(default_factory=list[int])  # states of the shared blocks that it holds, in order of the prompt
    published: int = 0  # leading blocks of `chain` that were offered for sharing
    evictions: int = 0  # times that it was evicted
    rank: int = 0  # number of its rank in the group
    gone: bool = False  # it has ended or was removed

    def __post_init__(self) -> None:
        self.total, self.begun = self.prompt, self.state


@dataclass(slots=True)
class Counts:
    """A rank's counters since it was created.

    The first three split the prompts of admitted sequences by source. As in vLLM, a sequence counts at its first admission,
    and not again after an eviction.
    """

    local_tokens: int = 0  # tokens that the rank has to compute
    cached_tokens: int = 0  # tokens found in its prefix cache
    fetched_tokens: int = 0  # tokens whose KV came from another engine
    looked_up_tokens: int = 0  # tokens looked up in the prefix cache
    found_tokens: int = 0  # looked-up tokens that were found
    produced_tokens: int = 0
    evictions: int = 0  # evictions of running sequences
    expired_leases: int = 0  # finished sequences whose KV was not fetched in time
    busy_s: float = 0.0  # engine seconds of its own part of the steps
    # ended sequences by reason; abort: the client left, error: their KV was not found
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error"), 0))


class Rank:
    """One emulated rank: its queue, its running sequences, its memory, and the plan of its next step.

    Args:
        token_budget: most tokens computed in a step; 0 = no limit, so that prompts are not cut.
        batch: float64[FEATURES] that `schedule` fills: features of the step (`cost.batch`) for a batch-time law; or None.
    """

    def __init__(self, slots: int, memory: Memory, token_budget: int, batch: F8 | None = None) -> None:
        self.slots, self.memory, self.batch = slots, memory, batch
        self.token_budget = token_budget or sys.maxsize
        self.waiting: deque[Sequence] = deque()  # evicted ones, the last evicted first, then the others as they were queued
        self.running: list[Sequence] = []  # with a slot, the oldest admission first
        self.scheduled: list[Sequence] = []
        self.load = self.longest = self.prefill_tokens = self.decode_tokens = 0
        self.counts = Counts()
        self.dead = False  # killed and not revived

    def schedule(self) -> None:
        """Plan the next step: evict and admit sequences, take blocks for its tokens, and count these as resident.

        Sets `scheduled` (the sequences that the step computes), `load` (resident KV tokens of all running sequences),
        `longest` (KV tokens of the largest of them), `prefill_tokens` and `decode_tokens` (computed in the step).
        """
        self.scheduled, self.prefill_tokens, self.decode_tokens = [], 0, 0
        if self.batch is not None:
            self.batch[:] = 0.0
        budget, evicted = self._continue(self.token_budget)
        if not evicted:
            self._admit(budget)
        resident = [one.resident for one in self.running]
        self.load, self.longest = sum(resident), max(resident, default=0)

    def release(self, one: Sequence) -> None:
        """Give back the private blocks of a sequence and its hold on shared ones; it then has no resident tokens."""
        self.memory.give(one.private)
        self.memory.leave(one.held)
        one.private, one.held, one.published, one.resident = 0, [], 0, 0

    def remove(self, one: Sequence) -> None:
        """Remove a sequence from the queue or from `running`, give back its blocks, and mark it as `gone`: steps skip it."""
        one.gone = True
        (self.running if one in self.running else self.waiting).remove(one)
        self.release(one)

    def check(self) -> None:
        """Check the invariants of slots and memory, for tests; a violation, which is our bug, raises `RuntimeError`."""
        held: dict[int, int] = {}
        for one in self.running:
            for block in one.held:
                held[block] = held.get(block, 0) + 1
            if (one.private + len(one.held)) * self.memory.block_size < one.resident:
                raise RuntimeError(f"sequence {one.key} has fewer blocks than tokens")
        private = sum(one.private for one in self.running)
        if len(self.running) > self.slots or any(one.private or one.held for one in self.waiting):
            raise RuntimeError("slots are exceeded, or a waiting sequence holds memory")
        if not 0 <= private + len(held) <= self.memory.used <= self.memory.blocks:
            raise RuntimeError("blocks do not add up")

    def _continue(self, budget: int) -> tuple[int, bool]:
        """Plan the tokens of running sequences; returns the remaining token budget, and True if a sequence was evicted."""
        index, evicted, running = 0, False, self.running
        size = self.memory.block_size
        while index < len(running) and budget > 0:
            one = running[index]
            tokens = min(one.total - one.resident, budget)
            if (one.private + len(one.held)) * size < one.resident + tokens:
                evicted |= self._make_room(one, tokens)
                if one.private + len(one.held) == 0:
                    break  # it was the newest and was evicted itself
            self._computes(one, tokens)
            budget -= tokens
            index += 1
        return budget, evicted

    def _make_room(self, one: Sequence, tokens: int) -> bool:
        """Take the blocks for `tokens` more tokens of a sequence, and evict the newest running ones until there are enough.

        It may evict the sequence itself. Returns True if any sequence was evicted.
        """
        need = self.memory.blocks_for(one.resident + tokens) - one.private - len(one.held)
        evicted = False
        while not self.memory.take(need):
            evicted = True
            victim = self.running.pop()
            self.release(victim)
            victim.evictions += 1
            victim.fetched = 0
            self.counts.evictions += 1
            self.waiting.appendleft(victim)
            if victim is one:
                return True
        one.private += need
        return evicted

    def _admit(self, budget: int) -> None:
        """Admit waiting sequences, and plan their first tokens, while slots, token budget and memory allow."""
        memory = self.memory
        while self.waiting and len(self.running) < self.slots and budget > 0:
            one = self.waiting[0]
            shared = one.chain[: min(memory.found(one.chain), (one.total - 1) // memory.block_size)]
            memory.hold(shared)
            if memory.blocks_for(one.total) - len(shared) > memory.available:
                memory.leave(shared)
                break
            ready = max(len(shared) * memory.block_size, min(one.fetched, one.total - 1))
            tokens = min(one.total - ready, budget)
            need = memory.blocks_for(ready + tokens) - len(shared)
            memory.take(need)
            one.private, one.held, one.published, one.resident = need, shared, len(shared), ready
            self.waiting.popleft()
            self.running.append(one)
            self._count_sources(one, len(shared) * memory.block_size, ready)
            self._computes(one, tokens)
            budget -= tokens

    def _count_sources(self, one: Sequence, cached: int, ready: int) -> None:
        """Count the prompt of a new sequence by source: `ready` tokens have KV, `cached` of them from the cache."""
        if one.evictions:
            return
        if self.memory.sharing:
            self.counts.looked_up_tokens += one.total
            self.counts.found_tokens += cached
        fetched = ready - cached + bool(one.fetched)  # the last token's KV came too, and is computed once more
        self.counts.cached_tokens += cached
        self.counts.fetched_tokens += fetched
        self.counts.local_tokens += one.total - cached - fetched

    def _computes(self, one: Sequence, tokens: int) -> None:
        """Add the next `tokens` tokens of a sequence to the planned step, as a decode or as prefill."""
        decodes = one.total > one.prompt and tokens == 1
        if decodes:
            self.decode_tokens += tokens
        else:
            self.prefill_tokens += tokens
        if self.batch is not None:
            add(self.batch, tokens, one.resident, decodes)
        one.resident += tokens
        if one.published < len(one.chain):
            self._publish(one)
        self.scheduled.append(one)

    def _publish(self, one: Sequence) -> None:
        """Share the blocks of a sequence that the planned step fills; a copy of a shared block stays private.

        As in vLLM, the next sequence of the same step finds them.
        """
        full = min(one.resident // self.memory.block_size, len(one.chain))
        while one.published < full:
            if self.memory.publish(one.chain[one.published]):
                one.held.append(one.chain[one.published])
                one.private -= 1
            one.published += 1
