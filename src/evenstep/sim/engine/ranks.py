"""Several ranks of one engine in lock-step: data parallelism with expert parallelism, as vLLM runs it.

Each rank is an engine with its own queue, memory and batches under the same scheduling policy. This file holds the part that
is the same for both doors. Order of events of a step:

1. the balancer assigns the requests that arrived (with ``schedules_ahead``: until the last step began) to ranks, one by one;
   each joins its rank's queue;
2. every rank forms its batch, as one engine does (`engine.simulation`, events 1 to 3), or else runs a dummy token;
3. all ranks' batches last as long as the law says for them together (`cost.lockstep`): the clock is one;
4. every rank's requests have run their tokens, as in event 5 of one engine.

If no rank has a batch, the clock goes to the next arrival, the earliest time a rank's policy asks for, or `until_s`. A
single rank gives the run of one engine, bit by bit. All ranks count iterations by step.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from evenstep.cost.batch import FEATURES
from evenstep.cost.lockstep import parts_of
from evenstep.errors import PolicyError
from evenstep.measure.engine_records import EngineRun, IterationTable
from evenstep.request import I8
from evenstep.scheduling.view import PRODUCED, PROMPT
from evenstep.sim.engine import model
from evenstep.sim.engine.balancing import Balancer, Counts
from evenstep.sim.engine.host import Course, believe, conditions_of, counted, made, said
from evenstep.sim.engine.input import check_trace
from evenstep.sim.engine.model import Iterations, Run
from evenstep.sim.engine.state import Task, named, prepared, rank_of
from evenstep.sim.in_one_piece import in_one_piece

#: Words of `Now` that are summed over ranks.
_SUMS = ("gaps", "evictions", "wasted_tokens", "moved_tokens", "prefill_tokens", "decode_tokens", "gap_sum_s")
#: Columns of the table of iterations that are sums over ranks.
_COLUMNS = Iterations._fields[2:]


def run(task: Task) -> EngineRun:
    """Run a trace through `data_parallel` ranks in lock-step; results and errors as of `simulation.simulate_engine`."""
    check_trace(task.trace, task.engine)
    group = Ranks(task)
    with in_one_piece(has_kernel=group.ranks[0].plain is None) as call:
        for rank in group.ranks:
            rank.call = call
        group.go_on()
    group.gather()
    counts = counted([one.run for one in group.ranks], task.policy)
    if len(group.ranks) > 1:
        counts |= {"dummy_batches": group.dummies}
    done = made(conditions_of(task), group.front, group.table(), counts, task.trace)
    return replace(
        done,
        totals=replace(done.totals, barrier_s=group.barrier_s),
        requests=replace(done.requests, rank=group.owner[done.requests.request_id]),
    )


class Rank(Course):
    """One data-parallel rank: its loop and state. `row`, int64[10], is its last batch in the columns of `Iterations[2:]`."""

    def __init__(self, front: Run, task: Task) -> None:
        super().__init__(rank_of(front, task), task)
        self.called_often()
        ints = np.zeros((len(_COLUMNS), 1), np.int64)
        self.write_to(named(np.zeros((2, 1)), ints))
        self.row: I8 = ints[:, 0]

    @property
    def idle_row(self) -> I8:
        """int64[10], the record of a step with a dummy batch: KV tokens held, requests running and waiting, else 0."""
        own = {"kv_held": self.held, "running": self.run.now.running, "waiting": self.run.now.waiting}
        return np.array([own.get(name, 0) for name in _COLUMNS], np.int64)

    @property
    def held(self) -> int:
        """KV tokens of memory in use on this rank."""
        return int(self.run.fixed.kv_capacity - self.run.now.kv_free)


class Ranks:
    """The ranks of one engine, their common clock, and the rank of each request.

    `front` is their common state: future requests, the clock, the table of requests, and after `gather` the sums. `owner` is
    int64[N], each request's rank. `barrier_s` sums over steps the mean of the ranks' waits for the slowest, in seconds.
    """

    def __init__(self, task: Task) -> None:
        engine, count = task.engine, task.engine.data_parallel
        self.task, self.front = task, prepared(task)
        self.parts = parts_of(task.batch_time, count)
        capacity = float(self.front.fixed.kv_capacity) if engine.kv_tokens else math.inf
        self.balancer = Balancer(engine.balancer, count, capacity, task.trace, int(self.front.fixed.seed), engine.news_s)
        self.owner = np.zeros(len(task.trace), np.int64)
        self.ranks = [Rank(self.front, task) for _ in range(count)]
        self.learned, self.dummies, self.barrier_s = 0, 0, 0.0
        self.rows: list[I8] = []
        self.times: list[tuple[float, float]] = []

    def go_on(self) -> None:
        """Run all steps until all requests are finished or `until_s` is reached; then call `gather` and `table`.

        A PolicyError if a policy broke its contract, or holds for ever.
        """
        fixed, now = self.front.fixed, self.front.now
        is_ahead = fixed.schedules_ahead == 1
        while True:
            self.arrive(float(now.seen_s if is_ahead else now.now_s))
            if now.finished == self.owner.size or now.now_s >= fixed.until_s:
                return
            formed = [self.form(one) for one in self.ranks]
            self.report()
            if any(formed):
                self.step(formed)
                continue
            if is_ahead and now.seen_s < now.now_s:
                now.seen_s = now.now_s
                continue
            then_s = min(self.next_arrival_s, float(fixed.until_s), *(float(one.run.now.wake_s) for one in self.ranks))
            if not now.now_s < then_s < math.inf:
                now.running = sum(one.run.now.running for one in self.ranks)
                now.waiting = sum(one.run.now.waiting for one in self.ranks)
                raise PolicyError(f"{self.task.label}: {said(model.HOLDS_FOR_EVER, self.front)}")
            now.now_s = now.seen_s = then_s

    @property
    def next_arrival_s(self) -> float:
        """Arrival time of the next request without a rank, in seconds; inf if none is left."""
        coming, next_one = self.front.lists.coming, int(self.front.now.coming)
        return float(self.front.requests.arrival_s[coming[next_one]]) if next_one < coming.size else math.inf

    def arrive(self, seen_s: float) -> None:
        """Assign requests that arrived by `seen_s` to ranks, which queue them in `form`. A predictor sets bounds first."""
        front, now, asked = self.front, self.front.now, self.task.quantiles
        while (arrival_s := self.next_arrival_s) <= seen_s:
            if asked is not None and now.coming >= now.asked:
                self.learned = believe(asked, self.task.trace, front, self.learned)
            row = int(front.lists.coming[now.coming])
            rank = self.balancer.choose(row, arrival_s)
            run = self.ranks[rank].run
            run.lists.coming[run.now.known] = row
            run.now.known += 1
            self.owner[row] = rank
            now.coming += 1

    def form(self, rank: Rank) -> bool:
        """Let a rank form its batch now, without running it; returns whether it has one. A PolicyError for a bad answer."""
        front, now = self.front.now, rank.run.now
        now.iteration, now.now_s, now.seen_s, now.rows = front.iteration, front.now_s, front.seen_s, 0
        code = rank.advance()
        if code not in (model.HAS_FORMED, model.HAS_NONE):
            raise PolicyError(f"{self.task.label}: {said(code, rank.run)}")
        return code == model.HAS_FORMED

    def report(self) -> None:
        """Report the ranks' counts to the balancer, if any request is still to come."""
        if self.next_arrival_s == math.inf:
            return
        table, runs = self.front.requests.table, [one.run for one in self.ranks]
        queues = [run.lists.waiting[int(run.now.first) : int(run.now.first + run.now.waiting)] for run in runs]
        counts = Counts(
            waiting=np.array([queue.size for queue in queues]),
            running=np.array([run.now.running for run in runs]),
            waiting_tokens=np.array([float(table[queue][:, [PROMPT, PRODUCED]].sum()) for queue in queues]),
            held=np.array([float(one.held) for one in self.ranks]),
        )
        self.balancer.hear(float(self.front.now.now_s), counts)

    def step(self, formed: list[bool]) -> None:
        """Run the ranks' batches as one step, advance the clock, record the step; rank r runs a dummy unless `formed[r]`.

        Requests that finish are added to those of `front`.
        """
        now, count = self.front.now, len(formed)
        batches, beside = np.zeros((count, FEATURES)), np.zeros(count)
        for r, (one, has) in enumerate(zip(self.ranks, formed, strict=True)):
            if has:
                batches[r], beside[r] = one.run.batch, one.run.now.beside_s
        seconds, own = self.parts.seconds(batches, self.task.engine.overhead_s, beside)
        self.barrier_s += float((own.max() - own).sum()) / own.size
        self.dummies += formed.count(False)
        sums = np.zeros(len(_COLUMNS), np.int64)
        for one, has in zip(self.ranks, formed, strict=True):
            if has:
                done, one.run.now.step_s = int(one.run.now.finished), float(seconds)
                one.advance()
                over = one.run.lists.finished[done : int(one.run.now.finished)]
                self.front.lists.finished[int(now.finished) : int(now.finished) + over.size] = over
                now.finished += over.size
            sums += one.row if has else one.idle_row
        started_s = float(now.now_s)
        now.seen_s = started_s
        now.now_s = started_s + seconds
        now.busy_s += seconds
        now.iteration += 1
        if self.task.records:
            self.rows.append(sums)
            self.times.append((started_s, seconds))

    def gather(self) -> None:
        """Add the ranks' counts to those of `front`, the state of the whole engine. Call it once, when the run is over."""
        front = self.front
        for one in self.ranks:
            front.gaps[:] += one.run.gaps
            for name in _SUMS:
                setattr(front.now, name, getattr(front.now, name) + getattr(one.run.now, name))
            front.now.gap_max_s = max(front.now.gap_max_s, one.run.now.gap_max_s)

    def table(self) -> IterationTable | None:
        """The table of steps, counts summed over ranks; None where records are not kept."""
        if not self.task.records:
            return None
        ints = np.array(self.rows, np.int64).reshape(-1, len(_COLUMNS)).T
        floats = np.array(self.times, np.float64).reshape(-1, 2).T
        return IterationTable(*named(floats.copy(), ints.copy()))
