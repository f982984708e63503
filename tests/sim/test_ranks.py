"""Ranks in lock-step: one rank is one engine, both doors agree, and nothing is lost between ranks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, examples

from evenstep import names
from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.profile import Profile
from evenstep.cost.token_budget import TokenBudget
from evenstep.cost.unit import Unit
from evenstep.errors import InputError, PolicyError
from evenstep.predict.intervals import Quantiles
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.view import BatchDecision
from evenstep.sim.engine import ranks
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.sim.engine.state import Task

SOME = ("vllm", "faster-transformer", "best", "wait")
BALANCERS = ("vllm", "vllm:score=waiting-4", "round-robin", "random", "jsq", "least-load", "power-of-d")


def trace(*requests, times=None):
    prompt, output = np.array(requests, np.int64).T
    return Trace(prompt_tokens=prompt, output_tokens=output, arrival_s=None if times is None else np.array(times))


def one_rank(which, policy, engine, seed, door="compiled", bounds=None, until_s=math.inf):
    task = Task(
        trace=which,
        policy=policy,
        engine=engine,
        batch_time=TokenBudget(),
        bounds=bounds,
        seed=seed,
        records=True,
        door=door,
        until_s=until_s,
        label="",
    )
    return ranks.run(task)


def same(a, b):
    assert a.digest == b.digest
    for name in a.requests.__slots__:
        assert np.array_equal(getattr(a.requests, name), getattr(b.requests, name)), name
    assert a.iterations is not None and b.iterations is not None
    for name in a.iterations.__slots__:
        assert np.array_equal(getattr(a.iterations, name), getattr(b.iterations, name)), name
    for name in a.totals.__slots__:
        one, other = getattr(a.totals, name), getattr(b.totals, name)
        assert np.array_equal(one, other, equal_nan=name == "gap_mean_s"), name


@pytest.mark.parametrize("name", SOME)
@examples(12, fast=4)
@given(run=engine_runs())
def test_one_rank_is_one_engine_bit_by_bit(name, run):
    which, engine, seed = run
    policy = names.build("scheduling", {"name": name})
    alone = simulate_engine(which, policy, engine=engine, seed=seed)
    same(one_rank(which, policy, engine, seed, door="auto"), alone)


@examples(20)
@given(run=engine_runs(), until_s=st.sampled_from([0.05, 0.3, 1.0]))
def test_one_rank_that_is_stopped_is_one_engine_that_is_stopped(run, until_s):
    which, engine, seed = run
    alone = simulate_engine(which, Vllm(), engine=engine, seed=seed, until_s=until_s)
    same(one_rank(which, Vllm(), engine, seed, until_s=until_s), alone)


@examples(8)
@given(run=engine_runs())
def test_one_rank_with_predicted_bounds_is_one_engine_with_them(run):
    which, engine, seed = run
    bounds = [Quantiles(names.build("predict", {"name": "survival"}), low=0.1, high=0.9) for _ in range(2)]
    policy = names.build("scheduling", {"name": "a-min"})
    alone = simulate_engine(which, policy, engine=engine, seed=seed, bounds=bounds[0])
    same(one_rank(which, policy, engine, seed, bounds=bounds[1], door="auto"), alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
@examples(12, fast=4)
@given(run=engine_runs(), count=st.integers(2, 3), balancer=st.sampled_from(BALANCERS))
def test_both_doors_run_the_same_steps(name, run, count, balancer):
    which, engine, seed = run
    engine = replace(engine, data_parallel=count, balancer=balancer)
    policy = names.build("scheduling", {"name": name})
    plain, fast = (simulate_engine(which, policy, engine=engine, seed=seed, door=door) for door in ("plain", "auto"))
    same(fast, plain)


@pytest.mark.parametrize("name", SOME)
@examples(12, fast=4)
@given(run=engine_runs(), count=st.integers(2, 4), news_s=st.sampled_from([0.0, 0.1]))
def test_every_token_is_run_once_on_one_rank_and_memory_is_kept(name, run, count, news_s):
    which, engine, seed = run
    engine = replace(engine, data_parallel=count, news_s=news_s)
    policy = names.build("scheduling", {"name": name})
    done = simulate_engine(which, policy, engine=engine, seed=seed)
    totals, table, steps = done.totals, done.requests, done.iterations
    assert steps is not None
    assert totals.requests == len(which) and totals.output_tokens == which.output_tokens.sum()
    later = 0 if engine.first_token == "decode" else 1
    once = int((which.prompt_tokens + which.output_tokens - later).sum())
    assert totals.prefill_tokens + totals.decode_tokens == once + totals.wasted_tokens == int(steps.tokens.sum())
    assert (steps.tokens <= count * (engine.token_budget or math.inf)).all() and (steps.tokens > 0).all()
    assert (steps.requests <= count * (engine.batch_limit or math.inf)).all()
    assert (steps.kv_held <= count * (engine.kv_tokens or math.inf)).all()
    assert ((table.rank >= 0) & (table.rank < count)).all()
    assert (table.arrival_s <= table.scheduled_s).all() and (table.scheduled_s < table.finished_s).all()
    assert set(table.finished_s.tolist()) <= set((steps.start_s + steps.seconds).tolist())
    assert (steps.start_s[1:] >= (steps.start_s + steps.seconds)[:-1]).all()
    assert totals.gaps == int(steps.produced.sum()) - len(which)
    assert 0 <= totals.barrier_s <= totals.busy_s * (count - 1) / count + 1e-9
    assert totals.iterations == steps.tokens.size and totals.counted["dummy_batches"] <= (count - 1) * totals.iterations


def test_every_rank_waits_for_the_slowest_and_an_idle_one_runs_a_dummy():
    law = AffineKv(d0_s=1.0, d1_s=0.1)
    engine = Engine(data_parallel=2, balancer="round-robin", first_token="decode")
    run = simulate_engine(trace((5, 2), (9, 1)), Sarathi(), engine=engine, batch_time=law)
    assert run.iterations is not None
    assert run.requests.rank.tolist() == [0, 1]
    assert run.iterations.seconds.tolist() == pytest.approx([1.9, 2.0, 1.7])  # the longer prompt, twice; then alone
    assert run.iterations.requests.tolist() == [2, 2, 1]
    assert run.totals.counted == {"dummy_batches": 1}
    assert run.totals.barrier_s == pytest.approx((0.4 + 0.4 + 0.7) / 2)
    assert run.summary["barrier_share"] == pytest.approx(0.75 / 5.6)


def test_the_balancer_counts_the_memory_of_a_rank_in_whole_blocks():
    rng = np.random.default_rng(1)
    requests = trace(*zip(rng.integers(1, 9, 20), rng.integers(1, 8, 20), strict=True), times=np.arange(20) / 16)
    odd, even = (
        simulate_engine(
            requests,
            Vllm(),
            engine=Engine(kv_tokens=tokens, block_tokens=16, batch_limit=3, data_parallel=2, news_s=0.0),
            batch_time=Unit(),
        )
        for tokens in (31, 16)
    )
    same(odd, even)


def test_a_request_that_comes_while_all_idle_starts_at_once():
    engine = Engine(data_parallel=2, schedules_ahead=True)
    run = simulate_engine(trace((1, 1), (1, 1), times=[0.5, 9.0]), Sarathi(), engine=engine, batch_time=Unit())
    assert run.requests.finished_s.tolist() == [1.5, 10.0]


def test_two_ranks_need_a_law_of_two_and_serve_more_than_one():
    rng = np.random.default_rng(1)
    many = Trace(
        prompt_tokens=rng.integers(50, 900, 60),
        output_tokens=rng.integers(5, 60, 60),
        arrival_s=np.cumsum(rng.exponential(0.05, 60)),
    )
    law = Profile("rtxpro6000-qwen3-30b-a3b-ep2")
    engine = Engine(batch_limit=16, block_tokens=16, schedules_ahead=True, data_parallel=2)
    pair = simulate_engine(many, Vllm(), engine=engine, batch_time=law)
    assert (
        pair.totals.makespan_s
        < simulate_engine(many, Vllm(), engine=replace(engine, data_parallel=1), batch_time=law).totals.makespan_s
    )
    assert 0.3 < pair.requests.rank.mean() < 0.7
    with pytest.raises(InputError, match="data_parallel is 4"):
        simulate_engine(many, Vllm(), engine=replace(engine, data_parallel=4), batch_time=law)


class Nothing:
    """A policy that never runs anybody, or gives too much."""

    def __init__(self, tokens):
        self.tokens = tokens

    def form_batch(self, view):
        return BatchDecision(np.full(view.left.size, self.tokens), np.zeros(view.left.size, bool), view.memory)


def test_a_policy_that_breaks_its_contract_on_a_rank_is_named():
    engine = Engine(data_parallel=2, balancer="round-robin")
    with pytest.raises(PolicyError, match="holds for ever: 0 requests hold memory, 2 wait"):
        simulate_engine(trace((4, 2), (4, 2)), Nothing(0), engine=engine, batch_time=Unit())
    with pytest.raises(PolicyError, match="more tokens than it has left"):
        simulate_engine(trace((4, 2), (4, 2)), Nothing(5), engine=engine, batch_time=Unit())


@pytest.mark.parametrize("options", [{"data_parallel": 0}, {"data_parallel": 1.5}, {"news_s": -1.0}])
def test_a_bad_number_of_ranks_is_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Engine(**options)
