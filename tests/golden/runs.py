"""The recorded runs: every routing policy in five fleets, every engine policy on four engines, and four readings of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from evenstep import names
from evenstep.predict.oracle import Oracle
from evenstep.predict.survival import Survival
from evenstep.request import Trace
from evenstep.routing.view import horizon_of
from evenstep.sim.cluster.simulation import Cluster, Outage, simulate
from evenstep.sim.engine.simulation import Engine, simulate_engine

FLEETS = {
    "saturated": Cluster(workers=8, slots=6, pool=40),
    "two groups, timed": Cluster(workers=6, slots=5, groups=(2, 4), arrivals="timed"),
    "memory binds": Cluster(workers=4, slots=8, kv_tokens=2_500.0, pool=60),
    "users": Cluster(workers=5, slots=4, arrivals="closed", users=26, think_s=0.02),
    "instant, outage": Cluster(
        workers=6, slots=5, dispatch="instant", queue_depth=2, outages=(Outage(40, 1), Outage(90, 1, True))
    ),
}
ENGINES = {
    "memory binds": Engine(kv_tokens=3_000, token_budget=128, block_tokens=16),
    "restart": Engine(kv_tokens=2_500, token_budget=256, overflow="restart"),
    "few seats": Engine(kv_tokens=20_000, token_budget=512, batch_limit=8, block_tokens=16),
    "paper": Engine(kv_tokens=4_000, token_budget=0, first_token="decode", overflow="swap", swap_s=(1e-7, 1e-3)),
}
READINGS = (
    "bf-io:horizon=20,discount=0.9",
    "bf-io:tie_weight=1",
    "br-h:horizon=12,order=margin",
    "br-0:bypass=true",
)


def trace(requests: int, seed: int, arrivals_per_s: float) -> Trace:
    """Prompts and outputs of two kinds, in two classes, with keys that repeat."""
    random = np.random.default_rng(seed)
    is_long = random.random(requests) < 0.2
    prompt = np.where(is_long, random.integers(400, 1_200, requests), random.integers(1, 160, requests))
    output = np.minimum(random.geometric(1 / 30, requests), 200)
    return Trace(
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=np.cumsum(random.exponential(1 / arrivals_per_s, requests)),
        request_class=is_long.astype(np.int64),
        prompt_key=random.integers(1, 40, requests),
        output_low=np.maximum(output // 2, 1),
        output_high=2 * output,
    )


def fleet_run(text: str, cluster: Cluster) -> str:
    """The digest of a fleet under a routing policy."""
    policy = names.build("routing", names.parse(text))
    predictor = None
    if horizon_of(policy):
        predictor = Survival() if text.startswith("best") else Oracle()
    return simulate(trace(300, 1, 900.0), policy, cluster=cluster, predictor=predictor, seed=3, records=False).digest


def engine_run(text: str, engine: Engine) -> str:
    """The digest of an engine under a scheduling policy."""
    policy = names.build("scheduling", names.parse(text))
    return simulate_engine(trace(160, 2, 6.0), policy, engine=engine, seed=5, until_s=600.0).digest


def runs() -> Iterator[tuple[str, Callable[[], str]]]:
    """Name of each recorded run, and how to make it."""
    for policy in names.members("routing"):
        for fleet, cluster in FLEETS.items():
            yield f"{policy}; {fleet}", partial(fleet_run, policy, cluster)
    for reading in READINGS:
        yield f"{reading}; saturated", partial(fleet_run, reading, FLEETS["saturated"])
    for policy in names.members("scheduling"):
        for server, engine in ENGINES.items():
            yield f"engine {policy}; {server}", partial(engine_run, policy, engine)
