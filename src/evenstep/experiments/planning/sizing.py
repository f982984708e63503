"""The least fleet that keeps up with a rate of arrivals and meets an objective, by search on the simulator.

A fleet keeps up if it serves at least the rate while its pool is kept full. It meets the objective if enough requests do
that arrive at the rate. Both are means over replicates, of the middle of each run (`measure.middle`). The search takes a
larger fleet for no worse than a smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.contenders import Contender
from evenstep.experiments.crew import Crew, Kernels, Places
from evenstep.experiments.jobs import Plan
from evenstep.experiments.lengths import Laws, Rows
from evenstep.experiments.planning.settings import MOST_REQUESTS, PlanSettings
from evenstep.experiments.progress import Progress
from evenstep.measure.metrics import Slo
from evenstep.measure.middle import middle
from evenstep.measure.planned import Size, Tried
from evenstep.request import F8, I8, Trace
from evenstep.sim.cluster.host import loop_of
from evenstep.workload.replicate import mean_load
from evenstep.workload.synthetic.arrivals import Poisson

#: Requests of the sample whose means the closed form uses.
SAMPLE = 100_000
#: Fewest requests of a run for each that runs at a time: a quarter fills the fleet and is not measured.
PER_RUNNING = 40
#: Relative error of times that are added up in a run.
_ROUNDING = 1e-9
#: The pace of workers for which laws without a closed form have one (`Demand.least`).
Pace = Literal["fastest", "slowest"]
#: Figures of a run's summary that a plan shows.
_SHOWN = ("slo_share", "idle_time_share", "ttft_p95_s", "tpot_p95_s")


@dataclass(frozen=True, eq=False)
class Demand:
    """The requests that arrive, and the kind of fleet to serve them."""

    settings: PlanSettings  # the objective, the laws of the fleet, and the runs
    lengths: Laws | Rows  # draws prompt and output tokens
    rate: float  # requests a second

    @property
    def unit(self) -> int:
        """The number of workers by which a fleet grows."""
        return self.settings.group_size or 1

    @cached_property
    def sample(self) -> Trace:
        """`SAMPLE` requests without times."""
        return self.lengths.draw(SAMPLE, self.settings.seed, 0)

    @cached_property
    def resident(self) -> float:
        """Mean KV tokens of a running request."""
        return mean_load(self.sample, 1)

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the KV tokens of a running request, over requests and their steps."""
        s, o = (column.astype(np.float64) for column in (self.sample.prompt_tokens, self.sample.output_tokens))
        squares = o * s**2 + s * o * (o - 1) + (o - 1) * o * (2 * o - 1) / 6
        return math.sqrt(max(0.0, float(squares.sum() / o.sum()) - self.resident**2))

    @cached_property
    def output(self) -> float:
        """Mean output tokens of a request."""
        return float(self.sample.output_tokens.mean())

    @cached_property
    def law(self) -> StepTime:
        """The step-time law."""
        return self.settings.fleet(self.unit, 1, "timed").step_time()

    @cached_property
    def within_reach(self) -> float:
        """Share of the sample that meets the objective if no step is longer than the first of a lone request.

        It is on the fastest worker. No fleet reaches more, under a law that rises with the load.
        """
        settings, slo = self.settings, self.settings.fleet(self.unit, 1, "timed").objective() or Slo()
        sizes = [settings.group_size] if settings.group_size else range(1, settings.most_workers + 1)
        prompt = self.sample.prompt_tokens.astype(np.float64)
        table = self.law.table()
        quickest = replace(table, seconds=table.seconds.min(axis=0, keepdims=True))
        step_s = quickest.local_seconds(prompt) + min(self.law.overhead_seconds(size) for size in sizes)
        first_s = settings.prefill_base_s + settings.prefill_per_token_s * prompt + step_s
        margin = 1 + _ROUNDING
        return float(np.mean((first_s <= slo.ttft_s * margin) & (step_s <= slo.tpot_s * margin)))

    def running(self, slots: int) -> float:
        """Most requests that run on a worker with so many slots: as many as its memory holds on average, or `slots`."""
        return min(slots, (self.settings.kv_tokens or math.inf) / self.resident)

    def served(self, workers: int, slots: int, *, fcfs: bool = False) -> float | None:
        """Requests a second that a fleet serves in closed form, with even loads and as many running requests as fit.

        With `fcfs`, the heaviest of a group's n workers has ``deviation * sqrt(2 B ln n)`` more than the mean: the largest
        of n normal loads, as FCFS leaves them. Source: BF-IO, extreme values; it is somewhat more than simulations show.
        None under a law that depends on more than the load of a worker, or differs between workers. `InputError` if a step
        takes 0 s.
        """
        found = self._served(np.array([workers]), slots, fcfs=fcfs)
        return None if found is None else float(found[0])

    def _served(self, workers: I8, slots: int, *, fcfs: bool = False, pace: Pace | None = None) -> F8 | None:
        """As `served`, for fleets of several sizes. With a `pace` it is known under each law, for all from `unit` on."""
        table = self.law.table()
        is_exact = not table.longest_share and len(table.seconds) == 1
        if not is_exact and pace is None:
            return None
        memory, size = self.settings.kv_tokens or math.inf, self.settings.group_size
        group = np.full(len(workers), size) if size else workers
        running = self.running(slots)
        load = np.full(len(workers), running * self.resident)
        if fcfs:
            load = np.minimum(memory, load + self.deviation * np.sqrt(2 * running * np.log(group)))
        if is_exact:
            local_s = self.law.local_seconds(load, np.full(len(workers), slots), np.zeros(len(workers)))
        elif pace == "fastest":
            local_s = replace(table, seconds=table.seconds.min(axis=0, keepdims=True)).local_seconds(load)
        else:
            longest = self.resident + self.deviation * math.sqrt(2 * math.log(max(1.0, running)))
            load += table.longest_share * (running * longest - load)
            each_s = table.local_seconds(np.full(workers[-1], load[0]))
            local_s = each_s.reshape(-1, size).max(axis=1) if size else np.maximum.accumulate(each_s)
        step_s = local_s + np.array([self.law.overhead_seconds(size) for size in group.tolist()])
        if step_s.min() <= 0:
            raise InputError("evenstep plan", "overhead_s and per_token_s", 0, "a step of more than 0 s")
        if size and pace == "slowest" and not is_exact:
            step_s = np.arange(1, len(workers) + 1) / np.cumsum(1 / step_s)  # the harmonic mean of the groups so far
        return workers * running / step_s / self.output

    def least(self, slots: int, *, fcfs: bool = False, pace: Pace | None = None) -> int | None:
        """The least number of workers that serves the rate in closed form; None without one up to ``most_workers``.

        A `pace` gives laws without a closed form one. All workers are then as fast as the fastest, and requests of a worker
        are equally long: no smaller fleet serves the rate. Or all of a group are as slow as its slowest, and the longest
        request is the largest of normal sizes: about the fleet that the search finds.
        """
        workers = np.arange(self.unit, self.settings.most_workers + 1, self.unit)
        served = self._served(workers, slots, fcfs=fcfs, pace=pace)
        enough = [] if served is None else workers[served >= self.rate]
        return int(enough[0]) if len(enough) else None

    def trace(self, running: int, replicate: int) -> Trace:
        """Poisson arrivals that suffice for so many running requests; their mean rate is exactly `rate`.

        `InputError` for more than `MOST_REQUESTS`.
        """
        count, seed = max(self.settings.requests, PER_RUNNING * running), self.settings.seed
        if count > MOST_REQUESTS:
            expected = f"at most {MOST_REQUESTS // PER_RUNNING:,}: a run has {PER_RUNNING} requests for each"
            raise InputError("evenstep plan", "busy slots of all workers", running, expected, "Plan for a part of the rate.")
        times = Poisson(self.rate).times(count, seed, replicate)
        return replace(self.lengths.draw(count, seed, replicate), arrival_s=times * (count / (self.rate * float(times[-1]))))


@dataclass(frozen=True, eq=False)
class Search:
    """The search for the least fleet of one policy with so many slots a worker."""

    demand: Demand
    asked: Contender
    slots: int

    @cached_property
    def first(self) -> int | None:
        """The least number of workers by the closed form (`Demand.least`)."""
        return self.demand.least(self.slots)

    def near(self, pace: Pace) -> int:
        """`first`; without a closed form that of a `pace`, or else the largest fleet (`Demand.least`)."""
        most, unit = self.demand.settings.most_workers, self.demand.unit
        return self.first or self.demand.least(self.slots, pace=pace) or most // unit * unit

    def size(self) -> Size:
        """Search from the closed form. Without one, search from the smallest fleet that fast workers would allow."""
        demand, tried = self.demand, dict[int, Tried]()
        settings, unit = demand.settings, demand.unit
        first = self.first
        found = Size(self.asked.name, self.slots, first, fcfs_workers=demand.least(self.slots, fcfs=True))
        if first is None and demand.served(unit, self.slots) is not None:
            return found  # not even with even loads
        if demand.within_reach < settings.share:
            return found

        def is_enough(workers: int) -> bool:
            if workers not in tried:
                tried[workers] = self.tried(workers)
            return tried[workers].is_enough

        def ascending(found: dict[int, Tried]) -> list[Tried]:
            return [found[workers] for workers in sorted(found)]

        workers = least_enough(is_enough, self.near("fastest"), unit, settings.most_workers // unit * unit)
        if workers is None:
            return replace(found, tried=ascending(tried))
        one, cost = tried[workers], settings.worker_cost
        tokens_per_hour = 3600 * demand.rate * demand.output
        return replace(
            found,
            workers=workers,
            closed_form_requests_per_s=demand.served(workers, self.slots),
            requests_per_s=one.requests_per_s,
            **one.figures,
            cost_per_million_tokens=None if cost is None else 1e6 * workers * cost / tokens_per_hour,
            tried=ascending(tried),
        )

    def tried(self, workers: int) -> Tried:
        """Simulate a fleet at the rate, and if it meets the objective with its pool kept full."""
        settings = self.demand.settings
        at_rate = self._runs(workers, "timed")
        figures = {name: _mean([run[name] for run in at_rate]) for name in _SHOWN}
        energy = [run["energy_busy_idle_j"] / run["output_tokens"] if run["output_tokens"] else None for run in at_rate]
        share, served = figures["slo_share"] or 0.0, None
        if share >= settings.share:
            full = self._runs(workers, "saturated")
            served = _mean([run["window_tokens_per_s"] / run["mean_output"] for run in full])
        is_enough = served is not None and served >= self.demand.rate
        return Tried(workers, share, served, is_enough, figures | {"joules_per_token": _mean(energy)})

    def _runs(self, workers: int, arrivals: Literal["timed", "saturated"]) -> list[dict[str, Any]]:
        """The summary of the middle of a run on each replicate, and the mean output tokens of its requests.

        Requests that arrive at the rate keep no more slots busy in a larger fleet, a full pool keeps all busy that memory
        allows. At the rate, runs of all sizes have the same requests: in a shorter run a growing queue would do less harm.
        """
        demand, served_by = self.demand, self.near("slowest") if arrivals == "timed" else workers
        busy = math.ceil(demand.running(self.slots) * served_by)
        fleet = demand.settings.fleet(workers, self.slots, arrivals)
        power, slo, found = fleet.power(), fleet.objective(), list[dict[str, Any]]()
        for index in range(demand.settings.seeds):
            trace = demand.trace(busy, index)
            plan = Plan(trace, fleet.cluster(), demand.law, seed=fleet.seed, power=power, all_records=True)
            summary = middle(plan.run(self.asked, index, trace), slo, power)
            found.append(summary | {"mean_output": float(trace.output_tokens.mean())})
        return found


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if a value is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def least_enough(is_enough: Callable[[int], bool], first: int, unit: int, most: int) -> int | None:
    """The least multiple of `unit` up to `most` that is enough; None if `most` is not.

    The search begins at the multiple `first`, and steps that double lead to one that is enough and one that is not. It then
    halves the gap between them. `is_enough` is asked about the answer and, above one unit, about the next smaller multiple.
    """
    step = unit
    if is_enough(first):
        low, high = max(0, first - step), first
        while low and is_enough(low):
            step *= 2
            low, high = max(0, low - step), low
    else:
        low, high = first, min(most, first + step)
        while low == most or not is_enough(high):
            if high == most:
                return None
            step *= 2
            low, high = high, min(most, high + step)
    while high - low > unit:
        middle = low + (high - low) // unit // 2 * unit
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class SizeJob:
    """One search (`executors.Job`): number `place` of all, whose policy is contender number `contender`, both from 0."""

    place: int
    contender: int
    label: str

    def carry_out(self, shared: Sequence[Search]) -> Size:
        return shared[self.place].size()


def sized(demand: Demand, asked: Sequence[Contender], processes: int | None, progress: Progress | None) -> list[Size]:
    """The least fleet for each number of slots and policy, policies in turn for each number.

    At most `processes` are used; None = all cores once that saves time. Raises the error of the first search that fails.
    """
    watch = progress or Progress()
    searches = [Search(demand, one, slots) for slots in demand.settings.slots for one in asked]
    jobs = [
        SizeJob(place, place % len(asked), f"{search.asked.name}, {search.slots} slots")
        for place, search in enumerate(searches)
    ]
    cluster = demand.settings.fleet(demand.unit, 1, "timed").cluster()
    loops = [loop_of(one.build()[0], cluster, demand.law) for one in asked]
    kernels = Kernels(asked, loops, kind=lambda job: job.contender, may_begin_plain=False)
    found: dict[int, Size] = {}
    watch.begin(len(jobs))
    try:
        with closing(Crew(searches, Places(processes=processes), watch)) as crew:
            for ended in crew.carry_out(jobs, kernels):
                if ended.error is not None:
                    raise ended.error
                found[ended.job.place] = ended.result
                watch.advance(ended.job.label)
    finally:
        watch.end()
    return [found[place] for place in range(len(jobs))]
