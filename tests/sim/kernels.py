"""States of the compiled simulators for tests of one kernel at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.sim.policies import Oldest

from evenstep.cost.linear import Linear
from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.cluster.simulation import Cluster
from evenstep.sim.cluster.state import Options, State, prepared
from evenstep.sim.engine import state as engine_state
from evenstep.sim.engine.model import Run
from evenstep.sim.engine.settings import Engine


def put(record: Any, **words: float) -> None:
    """Set words of a record."""
    for name, value in words.items():
        setattr(record, name, value)


def state(
    trace: Trace | None = None, policy: Any = None, step_time: Any = None, options: Options | None = None, **cluster: Any
) -> State:
    """A run's state before the first event; the decisions are recorded, so that it is the long loop's."""
    trace = trace or Trace(np.array([3, 5, 9]), np.array([4, 1, 2]))
    fleet = Cluster(**({"workers": 3, "slots": (2, 1, 4)} | cluster))
    return prepared(trace, policy or Oldest(), fleet, step_time or Linear(1.0, 0.5), options or Options(decisions=True))


def engine_task(trace: Trace, engine: Engine, policy: Any = None) -> engine_state.Task:
    """What an engine is asked to run."""
    return engine_state.Task(
        trace=trace,
        policy=policy or Sarathi(),
        engine=engine,
        batch_time=Unit(),
        bounds=None,
        seed=0,
        records=True,
        door="auto",
        until_s=np.inf,
        label="",
    )


def engine_run(trace: Trace, engine: Engine, policy: Any = None) -> Run:
    """An engine's state before the first iteration."""
    return engine_state.prepared(engine_task(trace, engine, policy))
