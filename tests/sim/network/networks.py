"""Networks that several tests run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evenstep.sim.network.description import CallSection, EngineSection, Network, TaskSection, load
from evenstep.workload.synthetic import arrivals, laws

EXAMPLES = Path(__file__).parents[3] / "examples" / "networks"
UNIT = "token-budget=512,batch-limit=0,first-token=decode"


def example(name: str, **changes: object) -> Network:
    """A bundled network, changed."""
    return replace(load(EXAMPLES / f"{name}.yaml"), **changes)  # type: ignore[arg-type]


def call(engine: str, prompt: int = 100, output: int = 20, **options: object) -> CallSection:
    return CallSection(engine, laws.Constant(prompt), laws.Constant(output), **options)  # type: ignore[arg-type]


def one_engine(calls: dict[str, CallSection], *, count: int = 20, rate: float = 0.5, **options: object) -> Network:
    """Tasks of one type on one engine whose iterations last a second."""
    engines = {"one": EngineSection(engine=UNIT, batch_time="unit", policy="sarathi")}
    task = TaskSection(calls=calls, arrivals=arrivals.Poisson(rate), count=count)
    return Network(engines=engines, tasks={"task": task}, **options)  # type: ignore[arg-type]
