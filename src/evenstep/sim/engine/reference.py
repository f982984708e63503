"""The engine simulator's loop in plain NumPy, in the order of events of `sim.engine`: the compiled loop must equal it."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep.cost.batch import Batch, BatchTime
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.errors import PolicyError
from evenstep.measure.quantiles import BINS, FIRST_BIN, SHIFT
from evenstep.request import I8
from evenstep.scheduling.order import QueueOrder, order_of
from evenstep.scheduling.view import (
    CLASS,
    DECODING,
    EVICTIONS,
    HIGH,
    ID,
    LEFT,
    LOST_AT,
    LOW,
    PREFILLED,
    PRODUCED,
    PROMPT,
    REACHED,
    RESIDENT,
    BatchDecision,
    EngineView,
    broken_rule,
)
from evenstep.sim.engine import layout as at
from evenstep.sim.engine.kept_reference import leave, overwrite, returns
from evenstep.sim.engine.layout import EngineState


@dataclass(frozen=True, slots=True, eq=False)
class Formed:
    """A batch that has its memory and waits for its seconds.

    Args:
        sent, tokens: int64[n], rows of its requests, tokens each runs.
        produces: bool[n], whether that ends in an output token.
        batch: what it is to a batch-time law.
        evicted: requests evicted for it.
        moved_s: seconds of moving memory.
    """

    sent: I8
    tokens: I8
    produces: Any
    batch: Batch
    evicted: int
    moved_s: float


class PlainLoop:
    """A policy's `form_batch`, asked once an iteration; state as the compiled loop keeps it."""

    def __init__(self, policy: Any, state: EngineState, batch_time: BatchTime, memory: I8) -> None:
        self.policy, self.state, self.memory = policy, state, memory
        self.law = batch_time.table()
        self.order: QueueOrder = order_of(policy)
        self.running: list[int] = []
        self.queue: list[tuple[float, int]] = []  # key and row, sorted
        self.formed: Formed | None = None

    def advance(self, table_i: I8, table_f: Any) -> int:
        """Run until all is done or the host is needed; what for (`engine.layout`)."""
        s = self.state
        if self.formed is not None:
            formed, self.formed = self.formed, None
            self.run_batch(formed, float(s.state_f[at.STEP_S]), table_i, table_f)
            return at.HAS_RUN
        now, until = at.NOW, s.state_f[at.UNTIL]
        while True:
            if not self.arrive():
                return at.ASK
            coming = int(s.state_i[at.COMING])
            later = float(s.arrival_s[s.coming[coming]]) if coming < s.coming.size else math.inf
            if not self.running and not self.queue:
                if s.numbers_i[at.IS_RANK]:
                    return self.has_none(math.inf)
                if later == math.inf:
                    return at.DONE
                s.state_f[now] = s.state_f[at.SEEN] = max(s.state_f[now], later)
                if s.state_f[now] >= until:
                    return at.STOPPED
                continue
            if s.state_f[now] >= until:
                return at.STOPPED
            if table_f.shape[1] and s.state_i[at.TABLE_ROWS] == table_f.shape[1]:
                return at.TABLE_FULL
            decision = self.decide()
            if decision.tokens.any():
                formed = self.form(decision)
                if s.numbers_i[at.IS_RANK]:
                    s.state_f[at.BESIDE_S], self.formed = formed.moved_s, formed
                    s.batch[:] = formed.batch.features
                    s.state_i[[at.RUNS, at.WAITS]] = len(self.running), len(self.queue)
                    return at.HAS_FORMED
                law_s = seconds_by_table(self.law, formed.batch)
                self.run_batch(formed, law_s + s.numbers_f[at.OVERHEAD] + formed.moved_s, table_i, table_f)
                continue
            if s.numbers_i[at.IS_RANK]:
                return self.has_none(decision.wake_s)
            if s.numbers_i[at.AHEAD] and s.state_f[at.SEEN] < s.state_f[now]:
                s.state_f[at.SEEN] = s.state_f[now]
                continue
            then = min(decision.wake_s, later)
            if not s.state_f[now] < then < math.inf:
                s.state_i[[at.RUNS, at.WAITS]] = len(self.running), len(self.queue)
                return at.HOLDS_FOR_EVER
            s.state_f[now] = s.state_f[at.SEEN] = then

    def has_none(self, wake_s: float) -> int:
        """This rank has no batch; its policy is asked again at `wake_s`."""
        self.state.state_f[at.WAKE_S] = wake_s
        self.state.state_i[[at.RUNS, at.WAITS]] = len(self.running), len(self.queue)
        return at.HAS_NONE

    def arrive(self) -> bool:
        s = self.state
        seen = at.SEEN if s.numbers_i[at.AHEAD] else at.NOW
        while s.state_i[at.COMING] < s.state_i[at.KNOWN]:
            coming = s.state_i[at.COMING]
            row = int(s.coming[coming])
            if s.arrival_s[row] > s.state_f[seen]:
                break
            if s.numbers_i[at.ASKS] and coming >= s.state_i[at.ASKED]:
                return False
            self.join(row)
            s.arrived[s.rows[CLASS, row]] += 1
            s.state_i[at.COMING] += 1
        return True

    def join(self, row: int) -> None:
        """The queue is sorted by key, ties by row."""
        rows, hidden = self.state.rows, self.state.hidden
        self.set_left(row)
        key = self.order.key(
            seed=int(self.state.numbers_i[at.SEED]), request=int(rows[ID, row]),
            arrival_s=float(self.state.arrival_s[row]), prompt=int(rows[PROMPT, row]), low=int(rows[LOW, row]),
            high=int(rows[HIGH, row]), produced=int(rows[PRODUCED, row]), reached=int(rows[REACHED, row]),
            lost_at=int(rows[LOST_AT, row]), evictions=int(rows[EVICTIONS, row]), attained=int(hidden[at.ATTAINED, row]),
        )  # fmt: skip
        self.queue.insert(bisect_left(self.queue, (key, row)), (key, row))

    def set_left(self, row: int) -> None:
        rows = self.state.rows
        pending = int(rows[PROMPT, row] + rows[PRODUCED, row] - rows[PREFILLED, row])
        if self.state.numbers_i[at.LAG]:
            rows[LEFT, row], rows[DECODING, row] = max(pending, 1), int(pending == 0)
        else:
            rows[LEFT, row] = pending
            rows[DECODING, row] = int(rows[PRODUCED, row] > 0 and pending == 1)

    def view(self) -> EngineView:
        s = self.state
        order = np.array([*self.running, *(row for _, row in self.queue)], np.int64)
        seen = s.rows[:, order]
        budget, limit, capacity = (int(s.numbers_i[k]) for k in (at.BUDGET, at.LIMIT, at.CAPACITY))
        view = EngineView(
            iteration=int(s.state_i[at.ITERATION]), seed=int(s.numbers_i[at.SEED]), now_s=float(s.state_f[at.NOW]),
            token_budget=budget, batch_limit=limit, kv_capacity=capacity, kv_free=int(s.state_i[at.FREE]),
            block_tokens=int(s.numbers_i[at.BLOCK]), hold_produced=int(s.numbers_i[at.HOLD]), arrived=s.arrived.copy(),
            memory=self.memory.copy(), request_id=seen[ID], request_class=seen[CLASS], prompt_tokens=seen[PROMPT],
            prefilled=seen[PREFILLED], produced=seen[PRODUCED], reached=seen[REACHED], lost_at=seen[LOST_AT],
            left=seen[LEFT], resident=seen[RESIDENT], output_low=seen[LOW], output_high=seen[HIGH],
            evictions=seen[EVICTIONS], arrival_s=s.arrival_s[order], running=np.arange(order.size) < len(self.running),
            decoding=seen[DECODING] > 0, first_decoded=int(s.numbers_i[at.LAG]),
            resident_limit=int(s.numbers_i[at.RESIDENTS]),
        )  # fmt: skip
        return view

    def decide(self) -> BatchDecision:
        """The policy's answer, checked."""
        view = self.view()
        decision = self.policy.form_batch(view)
        check(view, decision, self.memory.size, bool(self.state.numbers_i[at.OVERFLOW] == at.NEVER))
        self.memory = decision.memory
        return decision

    def form(self, decision: BatchDecision) -> Formed:
        """Evictions and admissions of a decision; the batch takes its memory."""
        s = self.state
        rows, numbers, money = s.rows, s.numbers_i, s.numbers_f
        everybody = np.array([*self.running, *(row for _, row in self.queue)], np.int64)
        picked = np.flatnonzero(decision.tokens)
        sent, tokens = everybody[picked], decision.tokens[picked]
        moved_s = self.evict(np.flatnonzero(decision.evict))
        before = rows[PREFILLED, sent]
        produces = (tokens == rows[LEFT, sent]) & ((numbers[at.LAG] == 0) | (rows[DECODING, sent] > 0))
        held = before + tokens + np.where(tokens == rows[LEFT, sent], numbers[at.HOLD], 0)
        held = -(-held // numbers[at.BLOCK]) * numbers[at.BLOCK]
        back = (rows[RESIDENT, sent] == 0) & (before > 0) & (numbers[at.OVERFLOW] == at.SWAP)
        moved = int(before[back].sum())
        s.state_i[at.MOVED] += moved
        moved_s += money[at.SWAP_A] * moved + money[at.SWAP_B] * int(back.sum())
        grown = int((held - rows[RESIDENT, sent]).sum())
        s.state_i[at.FREE] -= grown
        kept = 0
        if numbers[at.KEEPS]:
            kept = sum(returns(s, row) for row in sent[rows[RESIDENT, sent] == 0].tolist())
        rows[RESIDENT, sent] = held
        if numbers[at.KEEPS]:
            for row in overwrite(s, grown // int(numbers[at.BLOCK]) - kept):
                self.set_left(row)
        is_new = np.isin(sent, [row for _, row in self.queue])
        new = sent[is_new].tolist()
        self.running += new
        self.queue = [entry for entry in self.queue if entry[1] not in set(new)]
        batch = batch_of(before, tokens, rows[DECODING, sent] > 0)
        return Formed(sent, tokens, produces, batch, int(decision.evict.sum()), float(moved_s))

    def run_batch(self, formed: Formed, seconds: float, table_i: I8, table_f: Any) -> None:
        """The batch runs for so many seconds: the clock, its tokens, and its row of the table."""
        s, batch = self.state, formed.batch
        held_all = int(s.numbers_i[at.CAPACITY] - s.state_i[at.FREE])
        started_s = float(s.state_f[at.NOW])
        s.state_f[at.SEEN] = started_s
        s.state_f[at.NOW] = started_s + seconds
        s.state_f[at.BUSY] += seconds
        ran, waits = len(self.running), len(self.queue)
        self.run(formed.sent, formed.tokens, formed.produces, started_s)
        s.state_i[at.PREFILL_ALL] += batch.prefill_tokens
        s.state_i[at.DECODE_ALL] += batch.decodes
        s.state_i[at.ITERATION] += 1
        if table_f.shape[1]:
            k = int(s.state_i[at.TABLE_ROWS])
            table_f[:, k] = started_s, seconds
            table_i[:, k] = (
                batch.tokens, batch.prefill_tokens, batch.requests, batch.decodes, batch.kv, held_all, ran, waits,
                formed.evicted, int(formed.produces.sum()),
            )  # fmt: skip
            s.state_i[at.TABLE_ROWS] += 1

    def evict(self, positions: I8) -> float:
        """Requests give up their memory; seconds the moving costs."""
        s, numbers, money = self.state, self.state.numbers_i, self.state.numbers_f
        gone = [self.running[p] for p in positions.tolist()]
        held = s.rows[PREFILLED, gone].copy()
        block, kept = int(numbers[at.BLOCK]), 0
        if numbers[at.KEEPS]:
            kept = held // block * block
            for row in gone:
                leave(s, row, int(s.rows[RESIDENT, row]) // block)
        s.state_i[at.FREE] += int(s.rows[RESIDENT, gone].sum())
        s.rows[RESIDENT, gone] = 0
        s.rows[EVICTIONS, gone] += 1
        s.rows[LOST_AT, gone] = s.rows[PRODUCED, gone]
        s.rows[REACHED, gone] = np.maximum(s.rows[REACHED, gone], s.rows[PRODUCED, gone])
        is_swap = numbers[at.OVERFLOW] == at.SWAP
        if not is_swap:
            s.hidden[at.WASTED, gone] += held - kept
            s.rows[PREFILLED, gone] = kept
            if numbers[at.OVERFLOW] == at.RESTART:
                s.rows[PRODUCED, gone] = 0
        self.running = [row for row in self.running if row not in set(gone)]
        for row in gone:
            self.join(row)
        s.state_i[at.EVICTED_ALL] += len(gone)
        moved, squares = int(held.sum()), int((held * held).sum())
        if is_swap:
            s.state_i[at.MOVED] += moved
            return money[at.SWAP_A] * moved + money[at.SWAP_B] * len(gone)
        s.state_i[at.WASTED_ALL] += int((held - kept).sum())
        return money[at.DROP_A] * squares + money[at.DROP_B] * len(gone)

    def run(self, sent: I8, tokens: I8, produces: Any, started_s: float) -> None:
        """The batch's tokens are run; who has produced its last one leaves."""
        s, rows, hidden, times = self.state, self.state.rows, self.state.hidden, self.state.times
        now, iteration = float(s.state_f[at.NOW]), int(s.state_i[at.ITERATION])
        first = sent[hidden[at.FIRST_ITERATION, sent] < 0]
        hidden[at.FIRST_ITERATION, first] = iteration
        times[at.SCHEDULED_S, first] = started_s
        rows[PREFILLED, sent] += tokens
        hidden[at.ATTAINED, sent] += tokens
        made = sent[produces]
        rows[PRODUCED, made] += 1
        last = times[at.LAST_TOKEN_S, made]
        times[at.FIRST_TOKEN_S, made[np.isnan(last)]] = now
        for gap in (now - last[(last < started_s)]).tolist():
            self.count_gap(gap, 1)
        usual = int((last == started_s).sum())
        if usual:
            self.count_gap(now - started_s, usual)
        times[at.LAST_TOKEN_S, made] = now
        for row in sent.tolist():
            self.set_left(row)
        done = rows[PRODUCED, sent] == hidden[at.OUTPUT, sent]
        over = sent[done & produces]
        times[at.FINISHED_S, over] = now
        hidden[at.LAST_ITERATION, over] = iteration
        s.state_i[at.FREE] += int(rows[RESIDENT, over].sum())
        if s.numbers_i[at.KEEPS]:
            for row in over.tolist():
                leave(s, row, int(rows[RESIDENT, row] // s.numbers_i[at.BLOCK]))
        rows[RESIDENT, over] = 0
        ended = set(over.tolist())
        for row in self.running:
            if row in ended:
                s.finished[s.state_i[at.FINISHED]] = row
                s.state_i[at.FINISHED] += 1
        self.running = [row for row in self.running if row not in ended]

    def count_gap(self, gap: float, times: int) -> None:
        s = self.state
        s.gaps[min(max((int(np.float64(gap).view(np.int64)) >> SHIFT) - FIRST_BIN, 0), BINS - 1)] += times
        s.state_i[at.GAPS] += times
        s.state_f[at.GAP_SUM] += gap * times
        s.state_f[at.GAP_MAX] = max(s.state_f[at.GAP_MAX], gap)


def batch_of(before: I8, tokens: I8, decoding: Any) -> Batch:
    """The batch of requests that have computed `before` tokens and run `tokens`: int64[n] each, bool[n]."""
    chunk, context = tokens[~decoding], before[~decoding]
    return Batch(
        tokens=int(tokens.sum()), requests=tokens.size, decodes=int(decoding.sum()), prefill_tokens=int(chunk.sum()),
        kv=int((before + tokens).sum()), chunk_squares=int((chunk * chunk).sum()),
        crossed=int((chunk * context).sum()), decode_context=int(before[decoding].sum()),
        prefill_context=int(context.sum()), longest=int(before[decoding].max(initial=0)),
    )  # fmt: skip


def check(view: EngineView, decision: BatchDecision, memory: int, never: bool) -> None:
    """Refuse an answer that breaks the contract of `scheduling.view`.

    Raises:
        PolicyError: naming the request and what is wrong.
    """
    rule = broken_rule(view, decision, memory, may_evict=not never)
    if rule:
        raise PolicyError(rule)
