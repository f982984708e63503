"""Several ranks of one engine in lock-step: data parallelism with expert parallelism, as vLLM runs it.

Each rank is an engine with its own queue, memory and batches under the same scheduling policy, through either door of the
engine simulator. This file holds the common part, which is the same for both doors. Order of events of a step:

1. requests that arrived (with ``schedules_ahead``: until the last step began) are given to ranks by the balancer, one by
   one; each joins its rank's queue;
2. every rank forms its batch, as one engine does (`sim.engine`, events 1 to 3); a rank without a batch runs a dummy;
3. all ranks' batches last as long as the law says for them together (`cost.lockstep`): the clock is one;
4. every rank's requests have run their tokens, as in event 5 of one engine.

If no rank has a batch, the clock goes to the next arrival, or to the earliest time a rank's policy asks for. A single rank
gives the run of one engine, bit by bit. Iterations are counted by step, in all ranks alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenstep.cost.batch import FEATURES, BatchTime
from evenstep.cost.lockstep import parts_of
from evenstep.errors import PolicyError
from evenstep.measure.engine_records import EngineRun
from evenstep.predict.intervals import Quantiles
from evenstep.request import F8, I8, Trace
from evenstep.scheduling.view import PRODUCED, PROMPT, SchedulingPolicy
from evenstep.sim.engine import layout as at
from evenstep.sim.engine.balancing import Balancer, Counts
from evenstep.sim.engine.host import (
    CompiledLoop,
    advanced,
    believe,
    bounds_of,
    check_trace,
    loop_of,
    made,
    said,
    shown,
    started,
)
from evenstep.sim.engine.layout import EngineState
from evenstep.sim.engine.simulation import Engine

#: Sums over ranks that a run's totals are made of.
_SUMS_I = (at.GAPS, at.EVICTED_ALL, at.WASTED_ALL, at.MOVED, at.PREFILL_ALL, at.DECODE_ALL)


def run(
    trace: Trace, policy: SchedulingPolicy, engine: Engine, batch_time: BatchTime,
    bounds: tuple[I8, I8] | Quantiles | None, *, seed: int, records: bool,
    door: Literal["auto", "plain", "compiled"], until_s: float, name: str,
) -> EngineRun:  # fmt: skip
    """One run; arguments and errors as in `sim.engine.simulate_engine`."""
    label = name or type(policy).__name__
    check_trace(trace, engine)
    bounds = shown(trace, policy, bounds)
    asked = bounds if isinstance(bounds, Quantiles) else None
    low, high = bounds_of(trace, None if isinstance(bounds, Quantiles) else bounds, asked is not None)
    front = started(trace, policy, engine, low, high, seed, until_s)
    group = Ranks(front, trace, policy, engine, batch_time, asked, door=door, label=label, records=records)
    group.go_on()
    group.gather()
    rows, times = group.table_i, group.table_f
    table = np.stack(rows, axis=1) if rows else np.zeros((at.TABLE_I, 0), np.int64)
    clock = np.array(times).T if times else np.zeros((2, 0))
    names: tuple[str, ...] = getattr(policy, "counts", ())
    kept = [getattr(one.loop, "memory", one.memory) for one in group.ranks]
    counts = {which: sum(int(memory[k]) for memory in kept) for k, which in enumerate(names)}
    if len(group.ranks) > 1:
        counts |= {"dummy_batches": group.dummies}
    done = made(trace, engine, batch_time, front, [(table, clock)] if records else [], label, bounds, counts)
    return replace(
        done,
        totals=replace(done.totals, barrier_s=group.barrier_s),
        requests=replace(done.requests, rank=group.owner[done.requests.request_id]),
    )


@dataclass(slots=True, eq=False)
class Rank:
    """One rank: its state, the loop that changes it, what its policy keeps, and the row of its last batch."""

    state: EngineState
    loop: Any
    memory: I8
    table_i: I8
    table_f: F8

    @property
    def queue(self) -> Any:
        """Rows that wait."""
        if hasattr(self.loop, "queue"):
            return [row for _, row in self.loop.queue]
        first = self.state.state_i[at.FIRST]
        return self.state.waiting[first : first + self.state.state_i[at.WAITS]]


class Ranks:
    """The ranks, their one clock, and the rank of each request.

    `front` is their common state: future requests, the clock, and at the end the sums. Columns of requests (`rows`, `times`,
    `arrival_s`) are shared, since a request is on one rank only.
    """

    def __init__(
        self, front: EngineState, trace: Trace, policy: SchedulingPolicy, engine: Engine, batch_time: BatchTime,
        asked: Quantiles | None, *, door: str, label: str, records: bool,
    ) -> None:  # fmt: skip
        count = engine.data_parallel
        self.front, self.trace, self.asked, self.label, self.records = front, trace, asked, label, records
        self.parts = parts_of(batch_time, count)
        self.overhead_s = engine.overhead_s
        capacity = float(engine.kv_tokens) if engine.kv_tokens else math.inf
        self.balancer = Balancer(
            engine.balancer, count, capacity, trace, int(front.numbers_i[at.SEED]), engine.news_s
        )
        self.owner = np.zeros(len(trace), np.int64)
        self.ranks = [self._rank(policy, batch_time, door) for _ in range(count)]
        self.learned, self.dummies, self.barrier_s = 0, 0, 0.0
        self.table_i: list[I8] = []
        self.table_f: list[tuple[float, float]] = []

    def _rank(self, policy: SchedulingPolicy, batch_time: BatchTime, door: str) -> Rank:
        front = self.front
        own = EngineState.empty(len(self.trace), front.arrived.size)
        state = replace(
            own, numbers_i=front.numbers_i.copy(), numbers_f=front.numbers_f, rows=front.rows, times=front.times,
            arrival_s=front.arrival_s,
        )  # fmt: skip
        state.hidden[:], state.state_i[:], state.state_f[:] = front.hidden, front.state_i, front.state_f
        state.numbers_i[at.IS_RANK], state.state_i[at.KNOWN], state.state_f[at.UNTIL] = 1, 0, math.inf
        memory = np.zeros(int(getattr(policy, "memory_size", 0)), np.int64)
        loop = loop_of(policy, state, batch_time, memory, door, self.label)
        if isinstance(loop, CompiledLoop):
            loop.called_often()
        return Rank(state, loop, memory, np.zeros((at.TABLE_I, 1), np.int64), np.zeros((2, 1)))

    def go_on(self) -> None:
        """Run until all is done or the time is up.

        Raises:
            PolicyError: a policy broke its contract, or holds for ever.
        """
        s, f = self.front.state_i, self.front.state_f
        is_ahead = bool(self.front.numbers_i[at.AHEAD])
        while True:
            self.arrive(float(f[at.SEEN if is_ahead else at.NOW]))
            if s[at.FINISHED] == len(self.trace) or f[at.NOW] >= f[at.UNTIL]:
                return
            formed = [self.form(one) for one in self.ranks]
            self.report()
            if any(formed):
                self.step(formed)
                continue
            if is_ahead and f[at.SEEN] < f[at.NOW]:
                f[at.SEEN] = f[at.NOW]
                continue
            then = min(self.next_arrival_s, *(float(one.state.state_f[at.WAKE_S]) for one in self.ranks))
            if not f[at.NOW] < then < math.inf:
                s[[at.RUNS, at.WAITS]] = sum(one.state.state_i[[at.RUNS, at.WAITS]] for one in self.ranks)
                raise PolicyError(f"{self.label}: {said(at.HOLDS_FOR_EVER, self.front)}")
            f[at.NOW] = f[at.SEEN] = then

    @property
    def next_arrival_s(self) -> float:
        """When the next request that no rank has yet arrives; inf where none does."""
        front = self.front
        coming = int(front.state_i[at.COMING])
        return float(front.arrival_s[front.coming[coming]]) if coming < front.coming.size else math.inf

    def arrive(self, seen_s: float) -> None:
        """Requests that arrived until then go to their ranks."""
        front = self.front
        while self.next_arrival_s <= seen_s:
            coming = int(front.state_i[at.COMING])
            if self.asked is not None and coming >= front.state_i[at.ASKED]:
                self.learned = believe(self.asked, self.trace, front, self.learned)
            row = int(front.coming[coming])
            rank = self.balancer.choose(row, float(front.arrival_s[row]))
            state = self.ranks[rank].state
            state.coming[state.state_i[at.KNOWN]] = row
            state.state_i[at.KNOWN] += 1
            self.owner[row] = rank
            front.state_i[at.COMING] += 1

    def form(self, rank: Rank) -> bool:
        """A rank forms its batch; whether it has one.

        Raises:
            PolicyError: the policy broke its contract.
        """
        front, state = self.front, rank.state
        state.state_i[at.ITERATION] = front.state_i[at.ITERATION]
        state.state_i[at.TABLE_ROWS] = 0
        state.state_f[[at.NOW, at.SEEN]] = front.state_f[[at.NOW, at.SEEN]]
        code = advanced(rank.loop, rank.table_i, rank.table_f, self.label)
        if code not in (at.HAS_FORMED, at.HAS_NONE):
            raise PolicyError(f"{self.label}: {said(code, state)}")
        return code == at.HAS_FORMED

    def report(self) -> None:
        """The balancer hears the ranks' counts, as long as anybody is still to come."""
        if self.next_arrival_s == math.inf:
            return
        states, rows = [one.state for one in self.ranks], self.front.rows
        self.balancer.hear(
            float(self.front.state_f[at.NOW]),
            Counts(
                np.array([state.state_i[at.WAITS] for state in states]),
                np.array([state.state_i[at.RUNS] for state in states]),
                np.array(
                    [float((rows[PROMPT, one.queue] + rows[PRODUCED, one.queue]).sum()) for one in self.ranks]
                ),
                np.array([float(state.numbers_i[at.CAPACITY] - state.state_i[at.FREE]) for state in states]),
            ),
        )

    def step(self, formed: list[bool]) -> None:
        """All ranks run their batches, as long as the slowest takes."""
        front = self.front
        batches, beside = np.zeros((len(formed), FEATURES)), np.zeros(len(formed))
        for r, (one, has) in enumerate(zip(self.ranks, formed, strict=True)):
            if has:
                batches[r], beside[r] = one.state.batch, one.state.state_f[at.BESIDE_S]
        seconds, own = self.parts.seconds(batches, self.overhead_s, beside)
        self.barrier_s += float((own.max() - own).sum()) / own.size
        self.dummies += formed.count(False)
        started_s = float(front.state_f[at.NOW])
        sums = np.zeros(at.TABLE_I, np.int64)
        for one, has in zip(self.ranks, formed, strict=True):
            state = one.state
            if has:
                done = int(state.state_i[at.FINISHED])
                state.state_f[at.STEP_S] = seconds
                advanced(one.loop, one.table_i, one.table_f, self.label)
                sums += one.table_i[:, 0]
                over = state.finished[done : int(state.state_i[at.FINISHED])]
                first = int(front.state_i[at.FINISHED])
                front.finished[first : first + over.size] = over
                front.state_i[at.FINISHED] += over.size
            else:
                sums[at.T_KV_HELD] += state.numbers_i[at.CAPACITY] - state.state_i[at.FREE]
                sums[at.T_RUNNING] += state.state_i[at.RUNS]
                sums[at.T_WAITING] += state.state_i[at.WAITS]
        front.state_f[at.SEEN] = started_s
        front.state_f[at.NOW] = started_s + seconds
        front.state_f[at.BUSY] += seconds
        front.state_i[at.ITERATION] += 1
        if self.records:
            self.table_i.append(sums)
            self.table_f.append((started_s, seconds))

    def gather(self) -> None:
        """The ranks' sums and their requests' hidden columns become those of `front`."""
        front = self.front
        for r, one in enumerate(self.ranks):
            own = np.flatnonzero(self.owner == r)
            front.hidden[:, own] = one.state.hidden[:, own]
            front.gaps += one.state.gaps
            for which in _SUMS_I:
                front.state_i[which] += one.state.state_i[which]
            front.state_f[at.GAP_SUM] += one.state.state_f[at.GAP_SUM]
            front.state_f[at.GAP_MAX] = max(front.state_f[at.GAP_MAX], one.state.state_f[at.GAP_MAX])
