"""The decode cluster once more, to be read beside the docstring of `sim.cluster`: one method an event, no speed tricks.

It is the yardstick of the compiled simulator: tests hold the two equal in every bit. Policies are asked through the
plain door only.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from tests.oracles.arrivals import Arrivals
from tests.oracles.fleet import Group, Job, Loads, Worker, build
from tests.oracles.lookahead import Lookahead
from tests.oracles.record import Record, Reference, floats, ints, read_only

from evenstep.cost.view import StepTime
from evenstep.errors import InputError, PolicyError
from evenstep.predict.view import Predictor
from evenstep.request import F8, I8, Trace
from evenstep.routing.view import (
    HOLD,
    RoutingPolicy,
    RoutingView,
    broken_rule,
    expects_loads,
    horizon_of,
    memory_size_of,
    reads_cached,
)
from evenstep.sim.cluster.prefix_caches import PrefixCaches
from evenstep.sim.cluster.simulation import Cluster, Outage

#: Queue depth of a worker that may be sent any number of requests, as policies see it in `free_slots`.
ANY_NUMBER = 1 << 40


def simulate_reference(
    trace: Trace,
    policy: RoutingPolicy,
    *,
    cluster: Cluster,
    step_time: StepTime,
    predictor: Predictor | None = None,
    seed: int = 0,
    decisions: bool = False,
) -> Reference:
    """Run a trace on a cluster, event by event in the order `sim.cluster` lays down.

    Args:
        trace: the requests.
        policy: asked through ``route`` only; its answers are checked.
        cluster, step_time: the fleet and what a step on it costs.
        predictor: needed by a policy with a horizon.
        seed: key of the policy's draws.
        decisions: keep the decision table.

    Raises:
        InputError: a trace that does not fit the cluster, or a horizon without a predictor.
        PolicyError: an answer that breaks the contract, or requests held for ever.
    """
    simulation = _Simulation(trace, policy, cluster, step_time, predictor, seed)
    simulation.run()
    counted = simulation.caches.counted() if simulation.caches is not None else {}
    counted["held_decisions"] = simulation.held
    return simulation.record.reference(trace, simulation.jobs, simulation.now_s, decisions, counted)


class _Simulation:
    def __init__(
        self,
        trace: Trace,
        policy: RoutingPolicy,
        cluster: Cluster,
        step_time: StepTime,
        predictor: Predictor | None,
        seed: int,
    ) -> None:
        self.trace, self.policy, self.cluster, self.seed = trace, policy, cluster, seed
        self.name = type(policy).__name__
        self.horizon = horizon_of(policy)
        self.step_time, self.table = step_time, step_time.table()
        self.loads = Loads(trace, cluster)
        self.steps_of = [int(n) for n in cluster.drift.steps(trace)]
        self.groups = build(cluster)
        self.workers = [w for group in self.groups for w in group.workers]
        self.arrivals = Arrivals(trace, cluster)
        self.caches = PrefixCaches(trace, cluster) if cluster.prefix_cache_blocks else None
        self.lookahead: Lookahead | None = None
        if self.horizon > 0:
            if predictor is None:
                raise InputError("simulate", "predictor", "absent", "a predictor", f"{self.name} looks ahead.")
            self.lookahead = Lookahead(predictor, self.horizon, trace, self.loads, expects_loads(policy))
        self.outages = sorted(cluster.outages, key=lambda o: o.step)  # stable: as given where steps are equal
        self.now_s = 0.0
        self.pool: list[Job] = []
        self.jobs: dict[int, Job] = {}
        self.completed = 0
        self.memory: I8 = np.zeros(memory_size_of(policy), np.int64)
        self.waits_s, self.waits = 0.0, 0
        self.held = 0  # decisions that left a worker idle though a request fits it
        self.overloaded = False  # at the decisions of this event
        self.record = Record()

    def run(self) -> None:
        for group in self.groups:
            self.apply_outages(group)
        at_boundary: list[Group] = []
        while True:
            self.complete(at_boundary)
            if self.completed == len(self.trace):
                return
            self.reveal()
            self.overloaded = self.is_overloaded()
            self.decide()
            self.start()
            at_boundary = self.next_event()

    # 1. Next event -----------------------------------------------------------------------------------------------

    def next_event(self) -> list[Group]:
        """Move time; the groups at their boundary then."""
        end_s = min((g.end_s for g in self.groups if g.end_s is not None), default=math.inf)
        has_idle = any(g.end_s is None for g in self.groups)
        visible_s = self.arrivals.next_s
        if (has_idle or self.cluster.dispatch == "instant") and visible_s < end_s:
            self.now_s = visible_s
            return []
        if end_s == math.inf:
            self.unblock()
            return []
        self.now_s = end_s
        return [g for g in self.groups if g.end_s == end_s]

    def unblock(self) -> None:
        """Nothing runs and nothing can become visible: the earliest outages happen now, or it is an error."""
        if not self.pool:
            missing = next(row for row in range(len(self.trace)) if row not in self.jobs)
            raise InputError("trace", "after", self.trace[missing].after, f"a request that ends before {missing}")
        if not self.outages:
            raise PolicyError(f"policy {self.name} holds {len(self.pool)} requests for ever, from {self.pool[0].row} on")
        step = min(outage.step for outage in self.outages)
        pending = [outage for outage in self.outages if outage.step == step]
        self.outages = [outage for outage in self.outages if outage.step != step]
        for outage in pending:
            self.lose_or_return(outage)

    # 2. Complete -------------------------------------------------------------------------------------------------

    def complete(self, at_boundary: list[Group]) -> None:
        for group in at_boundary:
            group.end_s = None
            for worker in group.workers:
                for job in worker.running:
                    job.done += 1
                    if math.isnan(job.first_token_s):
                        job.first_token_s = self.now_s
                    if job.done == job.steps:
                        self.finish(job, group.step)
                worker.running = [job for job in worker.running if job.done < job.steps]
            group.step += 1
            self.apply_outages(group)

    def finish(self, job: Job, step: int) -> None:
        job.finished_s, job.finished_step = self.now_s, step
        self.completed += 1
        self.arrivals.ended(job.row, self.now_s)
        if self.lookahead is not None:
            self.lookahead.ended(job.row, self.now_s)

    def apply_outages(self, group: Group) -> None:
        due = [o for o in self.outages if self.workers[o.worker] in group.workers and o.step <= group.step]
        self.outages = [o for o in self.outages if o not in due]
        for outage in due:
            self.lose_or_return(outage)

    def lose_or_return(self, outage: Outage) -> None:
        worker = self.workers[outage.worker]
        worker.lost = not outage.back
        if worker.lost:
            if self.caches is not None:
                self.caches.lost(worker.index)
            leaving = worker.running + worker.queue
            worker.running, worker.queue = [], []
            for job in leaving:
                self.send_back(job)

    def send_back(self, job: Job) -> None:
        """To the pool, with what it produced; it stands where it stood before."""
        job.restarts += 1
        self.enter_pool(job)
        if self.lookahead is not None:
            self.lookahead.left(job.row)

    def enter_pool(self, job: Job) -> None:
        self.pool.append(job)
        self.pool.sort(key=lambda j: (j.since_s, j.row))

    # 3. Reveal ---------------------------------------------------------------------------------------------------

    def reveal(self) -> None:
        come = self.arrivals.due(self.now_s)
        come += self.arrivals.top_up(self.now_s, len(self.pool) + len(come))
        for since_s, row in come:
            visible_s = self.arrivals.origin_s(row, since_s)
            self.jobs[row] = Job(row, self.steps_of[row], visible_s, since_s)
            self.enter_pool(self.jobs[row])

    # 4. Decide ---------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        if self.cluster.dispatch == "pool":
            if self.is_due():
                self.ask(self.pool[:])
        else:
            while self.is_due() and self.ask(self.pool[:1]):
                pass

    def is_due(self) -> bool:
        return bool(self.pool) and any(self.free_slots(w) > 0 for w in self.workers)

    def free_slots(self, worker: Worker) -> int:
        depth = self.cluster.queue_depth if self.cluster.queue_depth >= 0 else ANY_NUMBER
        return 0 if worker.lost else worker.slots + depth - len(worker.running) - len(worker.queue)

    def is_overloaded(self) -> bool:
        """BF-IO's Definition 1: without its most frequent load the pool still fills all free slots."""
        alike = Counter(self.load_of(job) for job in self.pool)
        free = sum(self.free_slots(w) for w in self.workers)
        return len(self.pool) - max(alike.values(), default=0) >= free

    def ask(self, waiting: list[Job]) -> int:
        """One decision over these requests; how many of them it sent."""
        view = self.view(waiting)
        decision = self.policy.route(view)
        broken = broken_rule(view, decision)
        if broken:
            raise PolicyError(f"policy {self.name} broke its contract at decision {view.decision}: {broken}")
        if decision.memory is not None:
            self.memory = decision.memory.copy()
        answer = decision.worker if self.cluster.may_hold else self.work_for_idle(view, decision.worker)
        free_slots = sum(self.free_slots(w) for w in self.workers)
        sent = sum(1 for g in answer if g != HOLD)
        self.record.decision(self.now_s, len(self.pool), free_slots, sent, decision.bound)
        for job, g in zip(waiting, answer, strict=True):
            if g != HOLD:
                if self.caches is not None:
                    self.caches.sent(job.row, int(g))
                self.send(job, self.workers[g])
        return sent

    def work_for_idle(self, view: RoutingView, worker: I8) -> I8:
        """The answer, where the oldest held request that fits goes to each worker that would run nothing."""
        answer = worker.copy()
        idle = [g for g in self.workers if not g.running and not g.queue and self.free_slots(g) and g.index not in worker]
        for g in idle:
            fits = (answer == HOLD) & (view.waiting_load <= view.kv_free[g.index])
            if fits.any():
                answer[np.argmax(fits)] = g.index
        self.held += not np.array_equal(answer, worker)
        return answer

    def send(self, job: Job, worker: Worker) -> None:
        self.pool.remove(job)
        if not job.sent:
            job.sent = True
            self.waits_s += self.now_s - job.since_s
            self.waits += 1
        group = self.group_of(worker)
        if group.end_s is None and len(worker.running) < worker.slots and not worker.queue:
            self.begin(job, worker, group)
        else:
            worker.queue.append(job)

    def begin(self, job: Job, worker: Worker, group: Group) -> None:
        worker.running.append(job)
        job.worker, job.admitted_step = worker.index, group.step

    def group_of(self, worker: Worker) -> Group:
        return next(g for g in self.groups if worker in g.workers)

    def load_of(self, job: Job) -> float:
        return self.loads.at(job.row, job.done)

    def view(self, waiting: list[Job]) -> RoutingView:
        workers, trace = self.workers, self.trace
        load = [sum(map(self.load_of, w.running), 0.0) for w in workers]
        queued_load = [sum(map(self.load_of, w.queue), 0.0) for w in workers]
        requests = [trace[job.row] for job in waiting]
        if self.lookahead is not None:
            projections = self.lookahead.projections(self.groups)
        else:
            projections = np.zeros((len(workers), 0), np.float64)
        return RoutingView(
            decision=self.record.decisions,
            seed=self.seed,
            now_s=self.now_s,
            mean_wait_s=self.waits_s / self.waits if self.waits else 0.0,
            group=ints([self.group_of(w).index for w in workers]),
            queued=ints([len(w.queue) for w in workers]),
            queued_load=floats(queued_load),
            load=floats(load),
            free_slots=ints([self.free_slots(w) for w in workers]),
            running=ints([len(w.running) for w in workers]),
            kv_free=floats([self.kv_free(w, load[w.index], queued_load[w.index]) for w in workers]),
            seconds_per_token=floats([self.first_slope(w) for w in workers]),
            waiting_id=ints([job.row for job in waiting]),
            waiting_load=floats([self.load_of(job) for job in waiting]),
            waited_s=floats([self.now_s - job.since_s for job in waiting]),
            waiting_class=ints([r.request_class for r in requests]),
            waiting_key=ints([r.session if r.session >= 0 else r.prompt_key or r.request_id for r in requests]),
            waiting_steps=floats([math.nan] * len(waiting)),
            projections=read_only(projections),
            growth=read_only(self.cluster.drift.gains(self.horizon)),
            cached_tokens=self.cached_tokens(waiting),
            memory=read_only(self.memory.copy()),
        )

    def cached_tokens(self, waiting: list[Job]) -> F8:
        if self.caches is None or not reads_cached(self.policy):
            return read_only(np.zeros((0, 0), np.float64))
        return self.caches.cached(ints([job.row for job in waiting]))

    def kv_free(self, worker: Worker, load: float, queued_load: float) -> float:
        reserve = self.cluster.kv_reserve * (len(worker.running) + len(worker.queue))
        return max(0.0, self.cluster.kv_tokens - load - queued_load - reserve)

    def first_slope(self, worker: Worker) -> float:
        seconds = self.table.seconds[worker.index % len(self.table.seconds)]
        return float((seconds[1] - seconds[0]) / (self.table.load[1] - self.table.load[0]))

    # 5. Start ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for group in self.groups:
            if group.end_s is None:
                for worker in group.workers:
                    while worker.queue and len(worker.running) < worker.slots:
                        self.begin(worker.queue.pop(0), worker, group)
                    self.shed(worker)
                if any(worker.running for worker in group.workers):
                    self.start_step(group)

    def shed(self, worker: Worker) -> None:
        """The newest requests go back until the worker's load fits its KV memory, or one is left."""
        while len(worker.running) > 1 and sum(map(self.load_of, worker.running)) > self.cluster.kv_tokens:
            newest = max(worker.running, key=lambda j: (j.admitted_step, j.row))
            worker.running.remove(newest)
            self.send_back(newest)

    def start_step(self, group: Group) -> None:
        """Measure the loads and begin the step."""
        jobs = [job for w in group.workers for job in w.running]
        loads = {w.index: sum(map(self.load_of, w.running), 0.0) for w in group.workers}
        effective = self.table.effective_load(
            floats([loads.get(w.index, 0.0) for w in self.workers]),
            ints([len(w.running) for w in self.workers]),
            floats([max(map(self.load_of, w.running), default=0.0) for w in self.workers]),
        )
        local_s = [float(self.table.local_seconds(effective)[w.index]) for w in group.workers]
        duration_s = self.step_time.overhead_seconds(len(group.workers)) + max(local_s)
        group.end_s = self.now_s + duration_s
        for job in jobs:
            if math.isnan(job.admitted_s):
                job.admitted_s = self.now_s
        running_all = sum(len(w.running) for w in self.workers)
        tokens = sum(self.loads.tokens(job, job.done + 1) - self.loads.tokens(job, job.done) for job in jobs)
        self.record.step(group, self.now_s, duration_s, list(loads.values()), local_s, jobs, running_all, tokens)
        self.record.overloaded += self.overloaded
