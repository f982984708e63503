"""The largest arrival rate at which an engine keeps up under a policy, by bisection on the simulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from evenstep import names
from evenstep.cost.batch import BatchTime
from evenstep.experiments.crew import Crew, Kernels, Places
from evenstep.experiments.lengths import Laws, Rows
from evenstep.measure.comparison import Interval, mean_interval
from evenstep.measure.engine_records import EngineRun
from evenstep.measure.stability import Stability, Unit, stability, tokens_arrived, tokens_of, work_left
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory.capacity import Closed, Served, closed_form
from evenstep.workload.synthetic.arrivals import Poisson

#: Share of the arrivals that a drift may have and still count as zero, near the limit.
TOLERANCE = 0.005
#: The rate that an overloaded engine serves may lie outside the bracket by this share.
FAR = 0.02
#: The rate served in an overload by full batches counts as the limit if a run of at least `LONG` requests, at a rate lower
#: by the share `BELOW`, leaves at most the share `BELOW` of the tokens.
BELOW, LONG = 0.01, 100_000
#: Share by which chance may move a bracket, and the first step of the search for a clearly unstable run above it.
CHANCE, FINE = 0.1, 0.01
#: Requests of the sample, and of the run that gives a first guess where there is no formula.
SAMPLE, FEW = 100_000, 1_000
#: Rates smaller or larger than the first guess by more than this factor are not tried.
FARTHEST = 1e4


K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A scheduling policy on an engine, and the lengths of the requests that arrive. Nothing is cached between calls.

    Its methods guess the largest stable rate, or simulate a given rate; `largest_rates` searches.
    """

    policy: str  # NAME or NAME:key=value
    #: batch time, seconds of an iteration. With the engine's overhead it must be above 0, which is not checked here.
    law: BatchTime
    engine: Engine  # the server with its limits
    lengths: Laws | Rows  # draws prompt and output tokens of the requests

    @property
    def sample(self) -> Trace:
        """`SAMPLE` requests without arrival times, the same at each call; `size` and `closed` are computed from them."""
        return self.lengths.draw(SAMPLE, 0, 0)

    @property
    def size(self) -> float:
        """Mean tokens that the engine runs for a request of the sample if it evicts nothing."""
        return float(tokens_of(self.sample, self.engine.first_token).mean())

    @property
    def closed(self) -> Closed:
        """The largest stable rate in closed form, for the lengths of the sample, or why the policy has no such form."""
        sample, engine = self.sample, self.engine
        prompt, limits = sample.prompt_tokens, (engine.token_budget, engine.seats, engine.kv_tokens)
        output = tokens_of(sample, engine.first_token) - prompt
        served = Served(self.law, prompt, output, *limits, engine.overhead_s, engine.data_parallel)
        return closed_form(self.built, served)

    @property
    def fills_batches(self) -> bool:
        """True if the closed form equals the bound of all policies, so every batch of an overload is full (Theorem 1)."""
        closed = self.closed
        return closed.requests_per_s is not None and closed.requests_per_s == closed.at_most

    @property
    def built(self) -> SchedulingPolicy:
        """The scheduling policy, built anew at each call."""
        return names.build("scheduling", self.policy)

    def guess(self) -> float:
        """A first guess of the largest stable rate, requests a second: the closed form, else the bound of all policies.

        Without either it is `measured`.
        """
        closed = self.closed
        return closed.requests_per_s or closed.at_most or self.measured()

    def measured(self) -> float:
        """Requests a second that `sarathi` serves if `FEW` of them wait at 0 s, by simulation."""
        few = self.lengths.draw(FEW, 0, 0)
        return FEW / simulate_engine(few, Sarathi(), engine=self.engine, batch_time=self.law).totals.makespan_s

    def run(self, rate: float, requests: int, seed: int, replicate: int) -> EngineRun:
        """Simulate `requests` Poisson arrivals at a rate, requests a second. The run stops at the last arrival.

        Requests that are not finished then stay unfinished. Arrival times are stretched so that the drawn requests bring
        exactly ``rate * self.size`` tokens a second. `seed` and `replicate` are keys of lengths, times and the policy's
        random draws.
        """
        times, drawn = Poisson(rate).times(requests, seed, replicate), self.lengths.draw(requests, seed, replicate)
        work = float(tokens_of(drawn, self.engine.first_token).sum())
        times = times * (work / (self.size * rate * float(times[-1])))
        return simulate_engine(
            replace(drawn, arrival_s=times),
            self.built,
            engine=self.engine,
            batch_time=self.law,
            until_s=float(times[-1]),
            seed=seed + replicate,
            name=self.policy,
        )

    def verdict(self, rate: float, requests: int, seed: int, replicate: int) -> Stability:
        """The verdict on stability at a rate, requests a second, from a run of `requests` arrivals.

        While it is undecided, a new run has twice, then four times as many arrivals; the last verdict may be ``undecided``,
        too. The result's drift and rates are per second, in the unit of the last run (`unit_of`).
        """
        found: Stability | None = None
        for longer in (1, 2, 4):
            run = self.run(rate, longer * requests, seed, replicate)
            found = stability(run, unit=unit_of(run), tolerance=TOLERANCE)
            if found.verdict != "undecided":
                break
        assert found is not None
        return found

    def left(self, rate: float, requests: int, seed: int, replicate: int) -> float:
        """Tokens left when the last request of a run has arrived, over the tokens of all requests; arguments as of `run`.

        In longer runs it goes to 0 if the rate is stable. It is in 0..1 without evictions. After evictions it is too low,
        even below 0 (`work_left`).
        """
        run = self.run(rate, requests, seed, replicate)
        end = np.array([run.totals.makespan_s])
        return float((work_left(run, end) / tokens_arrived(run, end))[0])


def unit_of(run: EngineRun) -> Unit:
    """The unit in which a run is judged: ``tokens``, or ``requests`` if evictions wasted computed tokens."""
    return "requests" if run.totals.wasted_tokens else "tokens"


@dataclass(frozen=True, slots=True)
class Bracket:
    """The two rates between which a bisection ended, requests a second.

    Both are 0 if every tried rate is unstable, and inf if every one is stable.
    """

    low: float  # the largest rate found stable
    high: float  # the smallest found unstable
    #: requests a second served in an overload, if checks show that this is the largest stable rate; else None
    served: float | None = None

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Bisection:
    """One replicate's search for the largest stable rate of a case."""

    case: Case
    around: float  # a first guess, requests a second
    requests: int  # arrivals of a run; up to four times as many while the verdict is undecided
    precision: float  # the search ends when the bracket's width is at most this share of its lower end
    seed: int  # key of the arrivals, the same at every rate
    replicate: int  # a second key of them

    def search(self) -> Bracket:
        """Search, and return the last bracket with the rate that the engine serves in an overload.

        If no rate near `around` is stable, the search begins anew near `Case.measured`, because the bound of all policies
        may be far off. An example is an engine without a token budget, under a law by which all batches take equally long.
        """
        found = self.search_near(self.around)
        if found.high > 0.0 or (measured := self.case.measured()) == self.around:
            return found
        return self.search_near(measured)

    def search_near(self, around: float) -> Bracket:
        """Search from a rate, requests a second, and return the last bracket with what is served in an overload.

        The bracket begins 5 % below and above `around`, and moves until its lower end is stable and its upper end is not. At
        the end, runs with four times as many arrivals measure `served`. If the bracket moves from `around` by more than the
        factor `FARTHEST`, both ends are returned as 0 or inf.
        """
        low, high, wider = 0.95 * around, 1.05 * around, 0.1
        if not self._keeps_up(low):
            while not self._keeps_up(low):
                low, high, wider = low * (1 - wider), low, min(2 * wider, 0.5)
                if low < around / FARTHEST:
                    return Bracket(0.0, 0.0)
        else:
            while self._keeps_up(high):
                low, high, wider = high, high * (1 + wider), 2 * wider
                if high > around * FARTHEST:
                    return Bracket(float("inf"), float("inf"))
        while high - low > self.precision * low:
            middle = (low + high) / 2
            low, high = (middle, high) if self._keeps_up(middle) else (low, middle)
        return Bracket(low, high, self._served(low, high))

    def _keeps_up(self, rate: float) -> bool:
        """True if a rate counts as stable: an undecided verdict does if its drift is at most `TOLERANCE` of the arrivals."""
        found = self.case.verdict(rate, self.requests, self.seed, self.replicate)
        if found.verdict != "undecided":
            return found.verdict == "stable"
        return found.drift.value <= TOLERANCE * found.arrivals_per_s

    def _served(self, low: float, high: float) -> float | None:
        """The rate that an overloaded run serves, requests a second; None if it is not the largest stable rate.

        A policy that fills its batches serves the same in any overload, so rates from `high` upwards are tried until a run
        is unstable, or a rate is above `high` by `CHANCE`. Its served rate counts if a long run at a slightly lower rate
        leaves almost no work (`BELOW`). Any other policy runs at `high` only, and its served rate counts if it lies in the
        bracket, widened by `FAR`.
        """
        rate, step, conserves = high, FINE, self.case.fills_batches
        while True:
            run = self.case.run(rate, 4 * self.requests, self.seed, self.replicate)
            found = stability(run, unit=unit_of(run))
            if not conserves or found.verdict == "unstable" or rate > (1 + CHANCE) * high:
                break
            rate, step = (1 + step) * rate, 2 * step
        served = found.served_per_s / (self.case.size if unit_of(run) == "tokens" else 1.0)
        if conserves:
            counts = found.verdict == "unstable" and self._left_below(served) <= BELOW
        else:
            counts = (1 - FAR) * low < served < (1 + FAR) * high
        return served if counts else None

    def _left_below(self, rate: float) -> float:
        """The share of all tokens that a long run leaves undone, at a rate lower than this one by the share `BELOW`."""
        requests = max(LONG, 4 * self.requests)
        return self.case.left((1 - BELOW) * rate, requests, self.seed, self.replicate)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call of a function without arguments, as a job (`executors.Job`)."""

    label: str
    call: Callable[[], Any]

    def carry_out(self, shared: object) -> Any:
        return self.call()


def work_through(calls: Sequence[Callable[[], V]], processes: int | None = None) -> list[V]:
    """Make all calls, wait for them, and return their results in order; functions and results must be picklable.

    At most `processes` are used; None = begin in this process, and use all cores once that saves time. The error of the
    first call that fails is raised.
    """
    jobs = [_Call(str(place), call) for place, call in enumerate(calls)]
    found: dict[str, V] = {}
    with closing(Crew(None, Places(processes=processes))) as crew:
        for ended in crew.carry_out(jobs, Kernels(), longest_first=False):
            if ended.error is not None:
                raise ended.error
            found[ended.job.label] = ended.result
    return [found[job.label] for job in jobs]


@dataclass(frozen=True, slots=True)
class Rates:
    """The largest stable rate of a case, requests a second.

    Args:
        each: one rate a replicate; 0 or inf if every tried rate is unstable or stable.
        within: requests a second by which each may be off: half of the widest last bracket, or 0 if all replicates measured
            the rate served in an overload.
    """

    each: list[float]
    within: float

    def interval(self) -> Interval:
        """The mean with its 95 % interval, `within` wider at both ends; no ends with one replicate, or if a rate is inf."""
        if math.inf in self.each:
            return Interval(math.inf, None, None)
        found = mean_interval(self.each)
        if found.low is None or found.high is None:
            return found
        return replace(found, low=found.low - self.within, high=found.high + self.within)


def largest_rates(
    cases: Mapping[K, Case], requests: int, precision: float, seed: int, seeds: int, processes: int | None = None
) -> dict[K, Rates]:
    """The largest stable rate of each case over `seeds` replicates, requests a second, under the keys of `cases`.

    A case's rates are those served in an overload if every replicate shows that this is the limit. Otherwise they are the
    middles of the last brackets, at most `precision` wide as a share. Each search begins at `Case.guess`. A run has
    `requests` arrivals, or up to four times as many, and at least `LONG` in the last check. At most `processes` are used;
    None = all cores once that saves time.
    """
    guesses = {name: case.guess() for name, case in cases.items()}
    asked = [(name, replicate) for name in cases for replicate in range(seeds)]
    searches = [Bisection(cases[name], guesses[name], requests, precision, seed, k).search for name, k in asked]
    found = dict(zip(asked, work_through(searches, processes), strict=True))
    return {name: _rates([found[name, replicate] for replicate in range(seeds)]) for name in cases}


def _rates(brackets: Sequence[Bracket]) -> Rates:
    """The rates of one case from the brackets of its replicates: the served ones if each has one, else the middles."""
    served = [one.served for one in brackets if one.served is not None]
    if len(served) == len(brackets):
        return Rates(served, 0.0)
    widest = max((one.high - one.low for one in brackets if one.high < math.inf), default=0.0)
    return Rates([one.middle for one in brackets], widest / 2)
