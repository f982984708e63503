"""The engine simulator once more, to be read beside the docstring of `sim.engine.simulation`: lists and NumPy, no speed tricks.

It is the yardstick of the compiled simulator: tests hold the two equal in every bit. Policies are asked through the
plain door only; ranks and bounds that a predictor gives are not here.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.scheduling._keys import key_of_one

from evenstep.cost.batch import Batch, BatchTime
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import PolicyError
from evenstep.measure.engine_records import EngineRequestTable, IterationTable
from evenstep.measure.quantiles import LogHistogram
from evenstep.request import F8, I8, Trace
from evenstep.scheduling.order import order_of
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView, broken_rule, whole_blocks
from evenstep.sim.engine.simulation import Engine


@dataclass(slots=True, eq=False)
class Reference:
    """What happened: the tables, and totals by the names of `EngineTotals`."""

    requests: EngineRequestTable
    iterations: IterationTable
    totals: dict[str, Any]


@dataclass(slots=True, eq=False)
class Request:
    """A request on its way."""

    row: int
    request_id: int
    request_class: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    output_low: int
    output_high: int
    prefilled: int = 0
    produced: int = 0
    reached: int = 0
    lost_at: int = 0
    left: int = 0
    resident: int = 0
    evictions: int = 0
    decoding: bool = False
    attained: int = 0
    first_iteration: int = -1
    last_iteration: int = -1
    wasted_tokens: int = 0
    scheduled_s: float = math.nan
    first_token_s: float = math.nan
    last_token_s: float = math.nan
    finished_s: float = math.nan


class FreeMemory:
    """Free memory that still holds KV, in blocks: `kept` by request, the oldest first, and `unused` blocks."""

    def __init__(self, blocks: int) -> None:
        self.unused, self.kept = blocks, dict[int, int]()

    def leave(self, row: int, blocks: int) -> None:
        if blocks:
            self.kept[row] = blocks

    def returns(self, row: int, blocks: int) -> int:
        """A request that has computed whole `blocks` takes back what is left; in blocks."""
        if row not in self.kept:
            return 0
        self.unused += self.kept.pop(row) - blocks
        return blocks

    def overwrite(self, blocks: int) -> dict[int, int]:
        """Blocks are taken; what is left of each request that lost some."""
        taken = min(blocks, self.unused)
        self.unused -= taken
        blocks -= taken
        left: dict[int, int] = {}
        while blocks > 0:
            row, held = next(iter(self.kept.items()))
            taken = min(blocks, held)
            blocks -= taken
            left[row] = held - taken
            if held > taken:
                self.kept[row] = held - taken
            else:
                del self.kept[row]
        return left


@dataclass(slots=True, eq=False)
class _Engine:
    """The engine and its clock."""

    policy: Any
    engine: Engine
    law: BatchTime
    seed: int
    coming: list[Request]
    arrived: I8
    free: FreeMemory
    kv_free: int
    memory: I8
    running: list[Request] = field(default_factory=list)
    queue: list[tuple[float, int, Request]] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)
    rows: list[tuple[float, ...]] = field(default_factory=list)
    gap_counts: LogHistogram = field(default_factory=LogHistogram)
    iteration: int = 0
    now_s: float = 0.0
    seen_s: float = 0.0
    busy_s: float = 0.0
    gap_sum_s: float = 0.0
    gap_max_s: float = 0.0
    moved_tokens: int = 0
    wasted_tokens: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0

    def go_on(self, until_s: float) -> None:
        """Run until all is done or the time is up."""
        while True:
            self.arrive(self.seen_s if self.engine.schedules_ahead else self.now_s)
            later_s = self.coming[0].arrival_s if self.coming else math.inf
            if not self.running and not self.queue:
                if not self.coming:
                    return
                self.now_s = self.seen_s = max(self.now_s, min(later_s, until_s))
                if self.now_s >= until_s:
                    return
                continue
            if self.now_s >= until_s:
                return
            decision = self.decide()
            if decision.tokens.any():
                self.run_batch(decision)
                continue
            if self.engine.schedules_ahead and self.seen_s < self.now_s:
                self.seen_s = self.now_s
                continue
            then_s = min(decision.wake_s, later_s, until_s)
            if not self.now_s < then_s < math.inf:
                raise PolicyError("holds for ever")
            self.now_s = self.seen_s = then_s

    def arrive(self, seen_s: float) -> None:
        while self.coming and self.coming[0].arrival_s <= seen_s:
            request = self.coming.pop(0)
            self.join(request)
            self.arrived[request.request_class] += 1

    def join(self, request: Request) -> None:
        """The queue is sorted by key, ties by row."""
        self.set_left(request)
        insort(self.queue, (self.key(request), request.row, request))

    def key(self, request: Request) -> float:
        return key_of_one(
            order_of(self.policy),
            seed=self.seed,
            request=request.request_id,
            arrival_s=request.arrival_s,
            prompt=request.prompt_tokens,
            low=request.output_low,
            high=request.output_high,
            produced=request.produced,
            reached=request.reached,
            lost_at=request.lost_at,
            evictions=request.evictions,
            attained=request.attained,
            request_class=request.request_class,
        )

    def set_left(self, request: Request) -> None:
        pending = request.prompt_tokens + request.produced - request.prefilled
        if self.engine.first_token == "decode":
            request.left, request.decoding = max(pending, 1), pending == 0
        else:
            request.left, request.decoding = pending, request.produced > 0 and pending == 1

    @property
    def hold_produced(self) -> int:
        return int(self.engine.hold_produced and self.engine.first_token != "decode")

    def decide(self) -> BatchDecision:
        """The policy's answer, checked."""
        shown = [*self.running, *(request for _, _, request in self.queue)]
        engine, block = self.engine, self.engine.block_tokens
        columns = (
            "request_id",
            "request_class",
            "prompt_tokens",
            "prefilled",
            "produced",
            "reached",
            "lost_at",
            "left",
            "resident",
            "output_low",
            "output_high",
            "evictions",
        )
        view = EngineView(
            iteration=self.iteration,
            seed=self.seed,
            now_s=self.now_s,
            token_budget=engine.token_budget or UNLIMITED,
            batch_limit=engine.batch_limit or UNLIMITED,
            kv_capacity=(engine.kv_tokens or UNLIMITED) // block * block,
            kv_free=self.kv_free,
            block_tokens=block,
            hold_produced=self.hold_produced,
            arrived=self.arrived.copy(),
            memory=self.memory.copy(),
            arrival_s=np.array([one.arrival_s for one in shown]),
            running=np.arange(len(shown)) < len(self.running),
            decoding=np.array([one.decoding for one in shown]),
            first_decoded=int(engine.first_token == "decode"),
            resident_limit=engine.residents or UNLIMITED,
            **{name: np.array([getattr(one, name) for one in shown], np.int64) for name in columns},
        )
        decision = self.policy.form_batch(view)
        rule = broken_rule(view, decision, self.memory.size, may_evict=engine.overflow != "never")
        if rule:
            raise PolicyError(rule)
        self.memory = decision.memory
        return decision

    def run_batch(self, decision: BatchDecision) -> None:
        """One iteration: evictions, admissions, memory, then the tokens."""
        shown = [*self.running, *(request for _, _, request in self.queue)]
        sent = [(one, tokens) for one, tokens in zip(shown, decision.tokens.tolist(), strict=True) if tokens]
        evicted = [one for one, gone in zip(shown, decision.evict.tolist(), strict=True) if gone]
        moved_s = self.evict(evicted) if evicted else 0.0
        self.running += [one for one, _ in sent if one not in self.running]
        self.queue = [entry for entry in self.queue if entry[2] not in self.running]
        batch = batch_of(
            np.array([one.prefilled for one, _ in sent]),
            np.array([tokens for _, tokens in sent]),
            np.array([one.decoding for one, _ in sent]),
        )
        moved_s += self.take(sent)
        held = (self.engine.kv_tokens or UNLIMITED) // self.engine.block_tokens * self.engine.block_tokens
        held -= self.kv_free
        seconds = seconds_by_table(self.law.table(), batch) + self.engine.overhead_s + moved_s
        started_s, ran, waits = self.now_s, len(self.running), len(self.queue)
        self.seen_s, self.now_s = started_s, started_s + seconds
        self.busy_s += seconds
        produced = self.run_tokens(sent, started_s)
        self.prefill_tokens += batch.prefill_tokens
        self.decode_tokens += batch.decodes
        self.iteration += 1
        self.rows.append(
            (
                started_s,
                seconds,
                batch.tokens,
                batch.prefill_tokens,
                batch.requests,
                batch.decodes,
                batch.kv,
                held,
                ran,
                waits,
                len(evicted),
                produced,
            )
        )

    def evict(self, gone: list[Request]) -> float:
        """Requests give up their memory; seconds the moving costs."""
        engine, block, moved, squares = self.engine, self.engine.block_tokens, 0, 0
        self.running = [one for one in self.running if one not in gone]
        for one in gone:
            held, kept = one.prefilled, 0
            if engine.keeps_evicted:
                kept = held // block * block
                self.free.leave(one.row, one.resident // block)
            self.kv_free += one.resident
            one.resident = 0
            one.evictions += 1
            one.lost_at, one.reached = one.produced, max(one.reached, one.produced)
            moved, squares = moved + held, squares + held * held
            if engine.overflow != "swap":
                self.waste(one, held - kept)
                if engine.overflow == "restart":
                    one.produced = 0
        for one in gone:
            self.join(one)
        if engine.overflow == "swap":
            self.moved_tokens += moved
            return engine.swap_s[0] * moved + engine.swap_s[1] * len(gone)
        return engine.recompute_s[0] * squares + engine.recompute_s[1] * len(gone)

    def waste(self, request: Request, tokens: int) -> None:
        """KV that has to be computed again."""
        request.prefilled -= tokens
        request.wasted_tokens += tokens
        self.wasted_tokens += tokens

    def take(self, sent: list[tuple[Request, int]]) -> float:
        """The batch takes its memory; seconds of swapping in."""
        engine, block, moved, returned, grown = self.engine, self.engine.block_tokens, 0, 0, 0
        for one, tokens in sent:
            held = one.prefilled + tokens + (self.hold_produced if tokens == one.left else 0)
            held = whole_blocks(held, block)
            if one.resident == 0 and one.prefilled > 0 and engine.overflow == "swap":
                moved, returned = moved + one.prefilled, returned + 1
            grown += (held - one.resident) // block
            if engine.keeps_evicted and one.resident == 0:
                grown -= self.free.returns(one.row, one.prefilled // block)
            self.kv_free -= held - one.resident
            one.resident = held
        if engine.keeps_evicted:
            waiting = {row: request for _, row, request in self.queue}
            for row, blocks in self.free.overwrite(grown).items():
                if row in waiting and waiting[row].prefilled > blocks * block:
                    self.waste(waiting[row], waiting[row].prefilled - blocks * block)
                    self.set_left(waiting[row])
        self.moved_tokens += moved
        return engine.swap_s[0] * moved + engine.swap_s[1] * returned

    def run_tokens(self, sent: list[tuple[Request, int]], started_s: float) -> int:
        """The batch's tokens are run; answers how many output tokens that makes."""
        lag, produced, usual = self.engine.first_token == "decode", 0, 0
        for one, tokens in sent:
            if one.first_iteration < 0:
                one.first_iteration, one.scheduled_s = self.iteration, started_s
            makes_one = tokens == one.left and (not lag or one.decoding)
            one.prefilled += tokens
            one.attained += tokens
            if makes_one:
                one.produced += 1
                produced += 1
                if math.isnan(one.last_token_s):
                    one.first_token_s = self.now_s
                elif one.last_token_s < started_s:
                    self.count_gap(self.now_s - one.last_token_s, 1)
                else:
                    usual += 1
                one.last_token_s = self.now_s
            self.set_left(one)
        if usual:
            self.count_gap(self.now_s - started_s, usual)
        for (
            one,
            _,
        ) in sent:  # memory is given up in the order of the batch, and requests are written down in the order they run
            if one.produced == one.output_tokens:
                one.finished_s, one.last_iteration = self.now_s, self.iteration
                self.kv_free += one.resident
                if self.engine.keeps_evicted:
                    self.free.leave(one.row, one.resident // self.engine.block_tokens)
                one.resident = 0
        self.finished += [one for one in self.running if one.finished_s >= 0.0]
        self.running = [one for one in self.running if math.isnan(one.finished_s)]
        return produced

    def count_gap(self, gap_s: float, times: int) -> None:
        self.gap_counts.add(np.full(times, gap_s))
        self.gap_sum_s += gap_s * times
        self.gap_max_s = max(self.gap_max_s, gap_s)


def simulate_reference(
    trace: Trace,
    policy: Any,
    *,
    engine: Engine | None = None,
    batch_time: BatchTime | None = None,
    seed: int = 0,
    until_s: float = math.inf,
) -> Reference:
    """Run a trace through one engine, with the trace's columns as bounds.

    Raises:
        PolicyError: the policy broke its contract, or holds for ever.
    """
    engine = engine or Engine()
    truth = getattr(policy, "believes", "") == "truth"
    low = trace.output_tokens if truth else trace.column("output_low")
    high = trace.output_tokens if truth else trace.column("output_high")
    names = ("request_class", "arrival_s", "prompt_tokens", "output_tokens")
    columns = (trace.request_id, *(trace.column(name) for name in names), low, high)
    every = [Request(row, *values) for row, values in enumerate(zip(*(column.tolist() for column in columns), strict=True))]
    capacity = (engine.kv_tokens or UNLIMITED) // engine.block_tokens
    classes = max((one.request_class for one in every), default=0) + 1
    host = _Engine(
        policy,
        engine,
        batch_time or TokenBudget(),
        seed,
        sorted(every, key=lambda one: one.arrival_s),
        np.zeros(classes, np.int64),
        FreeMemory(capacity),
        capacity * engine.block_tokens,
        np.zeros(int(getattr(policy, "memory_size", 0)), np.int64),
    )
    host.go_on(until_s)
    return Reference(_request_table(host), _iteration_table(host), _totals(host))


def _request_table(host: _Engine) -> EngineRequestTable:
    done = sorted(host.finished, key=lambda one: one.row)
    ints = (
        "prompt_tokens",
        "output_tokens",
        "request_class",
        "first_iteration",
        "last_iteration",
        "evictions",
    )
    floats = ("arrival_s", "scheduled_s", "first_token_s", "finished_s")
    return EngineRequestTable(
        request_id=np.array([one.row for one in done], np.int64),
        rank=np.zeros(len(done), np.int64),
        wasted_tokens=np.array([one.wasted_tokens for one in done], np.int64),
        **{name: np.array([getattr(one, name) for one in done], np.int64) for name in ints},
        **{name: np.array([getattr(one, name) for one in done], np.float64) for name in floats},
    )


def _iteration_table(host: _Engine) -> IterationTable:
    columns: list[Any] = list(zip(*host.rows, strict=True)) or [()] * 12
    floats: list[F8] = [np.array(column, np.float64) for column in columns[:2]]
    return IterationTable(*floats, *(np.array(column, np.int64) for column in columns[2:]))


def _totals(host: _Engine) -> dict[str, Any]:
    every = [*host.finished, *host.running, *(one for _, _, one in host.queue), *host.coming]
    return {
        "requests": len(host.finished),
        "unfinished": len(every) - len(host.finished),
        "iterations": host.iteration,
        "evictions": sum(one.evictions for one in every),
        "wasted_tokens": host.wasted_tokens,
        "moved_tokens": host.moved_tokens,
        "prefill_tokens": host.prefill_tokens,
        "decode_tokens": host.decode_tokens,
        "makespan_s": host.now_s,
        "busy_s": host.busy_s,
        "gaps": host.gap_counts.total,
        "gap_max_s": host.gap_max_s,
        "gap_mean_s": host.gap_sum_s / host.gap_counts.total if host.gap_counts.total else math.nan,
        "gap_counts": host.gap_counts.counts,
    }


def batch_of(before: I8, tokens: I8, decoding: Any) -> Batch:
    """The batch of requests that have computed `before` tokens and run `tokens`: int64[n] each, bool[n]."""
    chunk, context = tokens[~decoding], before[~decoding]
    return Batch(
        tokens=int(tokens.sum()),
        requests=tokens.size,
        decodes=int(decoding.sum()),
        prefill_tokens=int(chunk.sum()),
        kv=int((before + tokens).sum()),
        chunk_squares=int((chunk * chunk).sum()),
        crossed=int((chunk * context).sum()),
        decode_context=int(before[decoding].sum()),
        longest=int(before[decoding].max(initial=0)),
    )
