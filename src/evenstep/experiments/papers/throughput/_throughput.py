"""Common parts of the Throughput-optimal experiments: recorded batches, identical requests, the largest rate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenstep import names
from evenstep.cost.batch import Batch, BatchTime
from evenstep.cost.unit import Unit
from evenstep.measure.engine_records import EngineRun
from evenstep.measure.stability import Stability, stability
from evenstep.request import I8, Trace
from evenstep.scheduling.order import QueueOrder, order_of
from evenstep.scheduling.view import BatchDecision, EngineView, SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.workload.synthetic.arrivals import Poisson


@dataclass(frozen=True, slots=True)
class Watched:
    """A policy whose batches are recorded: for each, request id -> (tokens, whether it decodes).

    Args:
        policy: the policy that decides.
        batches: its decisions, in order; filled by the run.
    """

    policy: SchedulingPolicy
    batches: list[dict[int, tuple[int, bool]]] = field(default_factory=list[dict[int, tuple[int, bool]]])

    @property
    def order(self) -> QueueOrder:
        return order_of(self.policy)

    @property
    def memory_size(self) -> int:
        return int(getattr(self.policy, "memory_size", 0))

    def form_batch(self, view: EngineView) -> BatchDecision:
        decision = self.policy.form_batch(view)
        picked = np.flatnonzero(decision.tokens)
        ids: I8 = view.request_id[picked]
        self.batches.append(
            {int(i): (int(decision.tokens[k]), bool(view.decoding[k])) for i, k in zip(ids, picked, strict=True)}
        )
        return decision


def schedule(policy: SchedulingPolicy, trace: Trace, token_budget: int) -> list[dict[int, tuple[int, bool]]]:
    """The batches of a run whose iterations last a second: request id -> (tokens, whether it decodes)."""
    watched = Watched(policy)
    simulate_engine(
        trace, watched, engine=Engine(token_budget=token_budget, first_token="decode"), batch_time=Unit(), door="plain"
    )
    return watched.batches


@dataclass(frozen=True, slots=True)
class Alike:
    """Requests that are all alike, arriving at random, on one engine without a limit on memory.

    Args:
        policy: spec of the policy.
        law: batch time.
        prompt, output: tokens of each request.
        token_budget: b.
        batch_limit: requests an iteration may run; 0 = no limit.
    """

    policy: str
    law: BatchTime
    prompt: int
    output: int
    token_budget: int = 512
    batch_limit: int = 0

    @property
    def engine(self) -> Engine:
        return Engine(token_budget=self.token_budget, batch_limit=self.batch_limit, first_token="decode")

    def seconds(self, tokens: float) -> float:
        """t(b'), seconds of a batch of so many tokens."""
        return self.law.seconds(Batch(tokens=round(tokens)))

    @property
    def capacity_per_s(self) -> float:
        """b / t_b / (m_p + m_d), requests a second of a work-conserving policy (eq. 2.7)."""
        return self.token_budget / self.seconds(self.token_budget) / (self.prompt + self.output)

    def run(self, rate: float, until_s: float, seed: int, replicate: int) -> EngineRun:
        """Poisson arrivals at a rate, requests a second, until that time."""
        count = round(rate * until_s) + 1
        trace = Trace(
            np.full(count, self.prompt),
            np.full(count, self.output),
            synthetic=True,
            name="alike",
            arrival_s=Poisson(rate).times(count, seed, replicate),
        )
        policy: SchedulingPolicy = names.build("scheduling", names.parse(self.policy))
        return simulate_engine(
            trace,
            policy,
            engine=self.engine,
            batch_time=self.law,
            until_s=until_s,
            seed=seed,
            name=self.policy,
        )

    def stability(self, rate: float, until_s: float, seed: int, replicate: int) -> Stability:
        return stability(self.run(rate, until_s, seed, replicate))

    def largest_rate(self, around: float, until_s: float, seed: int, replicate: int, step: float = 0.005) -> float:
        """The largest stable rate, by bisection between verdicts.

        The bracket begins a quarter below and above `around` and moves until its lower end is stable and its upper end
        unstable. A run that stays undecided at four times the length counts as stable if its drift is below 1 %.

        Args:
            around: a guess, requests a second.
            until_s: seconds of a run; those at low rates last longer, for as many requests.
            seed, replicate: keys of the arrivals, the same at every rate.
            step: width of the last bracket over its middle.
        """
        low, high = 0.75 * around, 1.25 * around
        while not self._keeps_up(low, until_s, seed, replicate):
            low, high = 0.75 * low, low
        while self._keeps_up(high, until_s, seed, replicate):
            low, high = high, 1.25 * high
        while high - low > step * low:
            middle = (low + high) / 2
            if self._keeps_up(middle, until_s, seed, replicate):
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def _keeps_up(self, rate: float, until_s: float, seed: int, replicate: int) -> bool:
        for longer in (1, 2, 4):
            found = self.stability(rate, longer * until_s, seed, replicate)
            if found.verdict != "undecided":
                return found.verdict == "stable"
        return found.drift.value <= 0.01 * found.arrivals_per_s
