"""Common parts of the Throughput-optimal experiments: recorded batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenstep.cost.unit import Unit
from evenstep.request import I8, Trace
from evenstep.scheduling.order import QueueOrder, order_of
from evenstep.scheduling.view import BatchDecision, EngineView, SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine


@dataclass(frozen=True, slots=True)
class Watched:
    """A policy that appends each batch to `batches`: request id -> (tokens, True if it decodes). `policy` decides."""

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
    """Simulate with iterations of 1 s, and return each batch in order: request id -> (tokens, True if it decodes)."""
    watched = Watched(policy)
    simulate_engine(trace, watched, engine=Engine(token_budget=token_budget, first_token="decode"), batch_time=Unit())
    return watched.batches
