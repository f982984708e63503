"""A_min by both readings and every victim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, examples

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.a_min import AMin
from evenstep.sim.engine.simulation import Engine, simulate_engine

OPTIONS = st.builds(
    AMin,
    st.sampled_from(["literal", "repaired"]),
    st.sampled_from(["bound", "least-kv", "last"]),
    st.sampled_from([0.0, 0.1, 0.7]),
)


@pytest.mark.slow
@examples(40, fast=10)
@given(run=engine_runs(), policy=OPTIONS)
def test_both_doors_agree_with_any_option(run, policy):
    trace, engine, seed = run
    plain, fast = (simulate_engine(trace, policy, engine=engine, seed=seed, door=door) for door in ("plain", "compiled"))
    assert plain.digest == fast.digest
    assert plain.totals.requests == len(trace)


def test_with_lengths_known_it_is_the_shortest_first_and_evicts_nobody():
    output = np.random.default_rng(0).permutation(np.arange(1, 41))
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=120, overflow="never", hold_produced=True)
    done = simulate_engine(
        Trace(prompt_tokens=np.ones_like(output), output_tokens=output),
        AMin(),
        engine=engine,
        batch_time=Unit(),
        bounds=(output, output),
    )
    assert (np.diff(done.requests.first_iteration[np.argsort(output)]) >= 0).all()


def test_the_lowest_bound_gives_way_and_comes_back():
    trace = Trace(prompt_tokens=np.array([1, 1]), output_tokens=np.array([4, 4]))
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=6, overflow="restart", hold_produced=True)
    done = simulate_engine(trace, AMin(), engine=engine, batch_time=Unit(), bounds=(np.array([1, 2]), np.array([9, 9])))
    # both hold 3 after two iterations; the third evicts the one of bound 1, which then fits beside nobody
    assert done.requests.evictions.tolist() == [1, 0]
    assert done.requests.finished_s.tolist() == [8.0, 4.0]


@pytest.mark.parametrize("watermark", [-0.1, 1.0, float("inf")])
def test_a_watermark_out_of_range_is_refused(watermark):
    with pytest.raises(InputError, match="watermark"):
        AMin(watermark=watermark)
