"""A_random keeps its order at every size of memory."""

from itertools import pairwise

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.a_random import ARandom
from evenstep.sim.engine.simulation import Engine, simulate_engine


def run(scale, seed=3):
    output = np.random.default_rng(1).integers(1, 12, 600)
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=600, overflow="never", hold_produced=True)
    return simulate_engine(
        Trace(prompt_tokens=np.ones_like(output), output_tokens=output),
        ARandom(scale),
        engine=engine,
        batch_time=Unit(),
        bounds=(output, output),
        seed=seed,
    )


def test_less_memory_starts_requests_in_the_same_order_and_costs_about_its_inverse_at_most():
    whole, half = run(1.0), run(0.5)
    order = np.argsort(whole.requests.first_iteration, kind="stable")
    starts = half.requests.first_iteration
    groups = np.split(order, np.flatnonzero(np.diff(whole.requests.first_iteration[order])) + 1)
    for before, after in pairwise(groups):
        assert starts[before].max() <= starts[after].min()
    assert half.iterations.kv_held.max() <= 300
    assert whole.summary["tel_s"] <= half.summary["tel_s"] <= 2.02 * whole.summary["tel_s"]


def test_the_order_is_the_seeds():
    assert run(1.0).digest == run(1.0).digest != run(1.0, seed=4).digest


@pytest.mark.parametrize("scale", [0.0, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(scale):
    with pytest.raises(InputError, match="memory_scale"):
        ARandom(scale)
