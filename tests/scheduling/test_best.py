"""Our scheduling policy by its promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import engine_runs, engine_views

from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.best import Best
from evenstep.scheduling.sarathi import Sarathi
from evenstep.sim.engine import Engine, simulate_engine


@given(engine_views())
def test_who_is_admitted_fits_whole(view):
    decision = Best(watermark=0.0).form_batch(replace(view, memory=np.zeros(Best.memory_size, np.int64)))
    admitted = np.flatnonzero((decision.tokens > 0) & ~view.running)
    if not admitted.size:
        return
    whole = sum(view.held_after(int(k), int(view.left[k])) for k in admitted)
    chunks = [k for k in np.flatnonzero(view.running) if not view.decoding[k]]
    running = sum(view.held_after(int(k), int(view.left[k])) for k in chunks)
    decoding = np.flatnonzero(view.decoding & view.running)
    kept = sum(view.held_after(int(k), 1) if decision.tokens[k] else int(view.resident[k]) for k in decoding)
    assert whole + running + kept <= view.kv_capacity
    assert not decision.evict.any()


@given(engine_runs())
def test_both_doors_agree_with_a_target_for_the_time_between_tokens(run):
    trace, engine, seed = run
    for policy in (Best(target_s=0.03), Best(room=0.0, patience=0.0), Best(window=3), Best(paced=False)):
        plain = simulate_engine(trace, policy, engine=engine, seed=seed, door="plain")
        fast = simulate_engine(trace, policy, engine=engine, seed=seed, door="compiled")
        assert plain.digest == fast.digest


def crowded(count=600):
    rng = np.random.default_rng(3)
    return Trace(
        prompt_tokens=rng.integers(20, 1500, count), output_tokens=rng.integers(5, 400, count),
        arrival_s=np.sort(rng.uniform(0, count / 3.0, count)),
    )  # fmt: skip


def test_where_memory_binds_it_wastes_a_fraction_of_what_others_do():
    engine = Engine(kv_tokens=12_000, token_budget=512)
    ours, plain = (simulate_engine(crowded(), p, engine=engine) for p in (Best(), Sarathi()))
    assert ours.totals.wasted_tokens < 0.3 * plain.totals.wasted_tokens
    assert ours.summary["e2e_mean_s"] < 0.85 * plain.summary["e2e_mean_s"]
    assert ours.summary["e2e_p99_s"] <= plain.summary["e2e_p99_s"]


def test_a_target_holds_the_time_between_tokens():
    engine = Engine(kv_tokens=40_000, token_budget=2048)
    law = TokenBudget()
    free, held = (
        simulate_engine(crowded(), Best(target_s=t, paced=False), engine=engine, batch_time=law)
        for t in (0.0, 0.05)
    )
    assert held.summary["tbt_p999_s"] < 0.055
    assert free.summary["tbt_p999_s"] > 0.1


def paced_and_not(law, trace=None, budget=512):
    engine = Engine(kv_tokens=12_000, token_budget=budget)
    return [
        simulate_engine(trace or crowded(), Best(paced=p), engine=engine, batch_time=law)
        for p in (True, False)
    ]


def test_prefills_below_the_knee_cost_no_time():
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=96)
    paced, free = paced_and_not(law)
    assert paced.totals.prefill_tokens > 1e5
    assert paced.totals.busy_s < 0.85 * free.totals.busy_s
    assert paced.summary["tbt_p99_s"] < 0.5 * free.summary["tbt_p99_s"]
    assert paced.summary["e2e_mean_s"] < 0.7 * free.summary["e2e_mean_s"]


def test_both_doors_agree_at_the_knee():
    engine = Engine(kv_tokens=8_000, token_budget=512, block_tokens=16)
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=96)
    plain, fast = (
        simulate_engine(crowded(400), Best(), engine=engine, batch_time=law, door=door)
        for door in ("plain", "compiled")
    )
    assert plain.totals.evictions > 0
    assert plain.digest == fast.digest


def test_where_no_token_is_free_nothing_is_held_back():
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=0)
    paced, free = paced_and_not(law)
    assert paced.digest == free.digest


def test_long_prompts_and_short_outputs_are_never_held_back_in_the_long_run():
    rng = np.random.default_rng(5)
    trace = Trace(
        prompt_tokens=rng.integers(500, 3000, 500), output_tokens=rng.integers(2, 20, 500),
        arrival_s=np.sort(rng.uniform(0, 300, 500)),
    )  # fmt: skip
    paced, free = paced_and_not(TokenBudget(c_s=0.03, a_s=0.0003, b0=96), trace, 2048)
    assert paced.totals.makespan_s < 1.02 * free.totals.makespan_s
    assert paced.summary["e2e_mean_s"] < 1.05 * free.summary["e2e_mean_s"]


@pytest.mark.parametrize(
    ("field", "value"), [("watermark", 1.0), ("patience", -1.0), ("window", 0), ("room", float("nan"))]
)
def test_a_bad_option_is_named(field, value):
    with pytest.raises(InputError, match=field):
        Best(**{field: value})
