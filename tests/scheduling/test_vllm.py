"""Today's vLLM by what its scheduler does."""

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import engine_runs, engine_views

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.sim.engine.simulation import Engine, simulate_engine


def trace(*requests):
    prompt, output = np.array(requests, np.int64).T
    return Trace(prompt, output)


@given(engine_views())
def test_running_requests_come_first_and_after_an_eviction_nobody_is_admitted(view):
    decision = Vllm().form_batch(view)
    admitted = decision.tokens[~view.running] > 0
    if admitted.any():
        assert (decision.tokens[view.running] > 0).all() and not decision.evict.any()


def test_a_prompt_is_admitted_whole_or_not_at_all():
    """20 of 24 tokens are free, and the second prompt of 22 would run 4 of them now."""
    engine = Engine(token_budget=8, kv_tokens=24)
    two = trace((4, 3), (22, 1))
    for policy, second in ((Vllm(), 3), (Vllm(reserve_full_prompt=False), 0)):
        run = simulate_engine(two, policy, engine=engine, batch_time=Unit())
        assert run.requests.first_iteration.tolist() == [0, second]


def test_a_watermark_is_left_free_while_others_run():
    engine = Engine(kv_tokens=100)
    three = trace((40, 5), (40, 5), (10, 5))
    for share, seconds in ((0.0, [0, 0, 0]), (0.2, [0, 0, 5])):
        run = simulate_engine(three, Vllm(watermark=share), engine=engine, batch_time=Unit())
        assert run.requests.first_iteration.tolist() == seconds


def test_a_lone_request_is_not_held_to_the_threshold():
    run = simulate_engine(trace((30, 1)), Vllm(long_prefill_token_threshold=5), batch_time=Unit())
    assert run.totals.iterations == 1
    run = simulate_engine(trace((30, 1), (1, 9)), Vllm(long_prefill_token_threshold=5), batch_time=Unit())
    assert run.iterations is not None
    assert run.iterations.tokens.max() == 6


@pytest.mark.slow
@given(engine_runs())
def test_no_more_requests_hold_memory_than_the_batch_limit(run):
    requests, engine, seed = run
    done = simulate_engine(requests, Vllm(watermark=0.1, long_prefill_token_threshold=7), engine=engine, seed=seed)
    other = simulate_engine(
        requests, Vllm(watermark=0.1, long_prefill_token_threshold=7), engine=engine, seed=seed, door="plain"
    )
    assert done.digest == other.digest
    assert done.iterations is not None
    assert (done.iterations.running <= (engine.batch_limit or np.inf)).all()


@pytest.mark.parametrize("options", [{"watermark": 1.0}, {"long_prefill_token_threshold": -1}])
def test_a_bad_option_is_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Vllm(**options)
