"""Our scheduling policy by its promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, engine_views, examples

from evenstep.cost.profile import Profile
from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.adaptive.queue_head import COUNT, FEWEST
from evenstep.scheduling.policies.best import PASSED, SIZES, WAITED, Best
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.view import EngineView
from evenstep.sim.engine.simulation import Engine, simulate_engine


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


@pytest.mark.slow
@examples(60, fast=4)
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
        prompt_tokens=rng.integers(20, 1500, count),
        output_tokens=rng.integers(5, 400, count),
        arrival_s=np.sort(rng.uniform(0, count / 3.0, count)),
    )


def test_where_memory_binds_it_wastes_a_fraction_of_what_others_do():
    engine = Engine(kv_tokens=12_000, token_budget=512)
    ours, unpaced, plain = (simulate_engine(crowded(), p, engine=engine) for p in (Best(), Best(paced=False), Sarathi()))
    assert unpaced.totals.wasted_tokens < 0.3 * plain.totals.wasted_tokens
    assert ours.totals.wasted_tokens < 0.5 * plain.totals.wasted_tokens
    assert ours.summary["e2e_mean_s"] < 0.5 * plain.summary["e2e_mean_s"]
    assert ours.summary["e2e_p99_s"] <= 0.6 * plain.summary["e2e_p99_s"]


@pytest.mark.parametrize("target_s", [0.0, 0.05])
def test_the_last_bits_of_a_clock_decide_nothing(target_s):
    """The same arrivals by a clock that began elsewhere: times between them differ in their last bits alone."""
    trace, engine = crowded(200), Engine(kv_tokens=12_000, token_budget=512)
    runs = [
        simulate_engine(
            replace(trace, arrival_s=trace.column("arrival_s") + began_s), Best(target_s=target_s), engine=engine
        )
        for began_s in (0.0, 1234.567, 98765.4321)
    ]
    one, *others = [run.iterations for run in runs]
    assert one is not None
    for other in others:
        assert other is not None and other.tokens.tolist() == one.tokens.tolist()


def held_up(size, hold=1000, budget=512):
    """Memory of 1000 tokens: one that decodes holds 400, one that waits needs 700, one behind it `size`."""
    memory = np.zeros(Best.memory_size, np.int64)
    memory.view(np.float64)[[WAITED, SIZES]] = 100.0, 10.0  # mean wait 10 s: the first is overdue after 12
    column = np.array
    return EngineView(
        iteration=3,
        seed=0,
        now_s=100.0,
        token_budget=budget,
        batch_limit=8,
        kv_capacity=hold,
        kv_free=hold - 400,
        block_tokens=1,
        hold_produced=0,
        arrived=column([3]),
        memory=memory,
        request_id=np.arange(3),
        request_class=np.zeros(3, np.int64),
        prompt_tokens=column([300, 700, size]),
        prefilled=column([400, 0, 0]),
        produced=column([101, 0, 0]),
        reached=np.zeros(3, np.int64),
        lost_at=np.zeros(3, np.int64),
        left=column([1, 700, size]),
        resident=column([400, 0, 0]),
        output_low=np.zeros(3, np.int64),
        output_high=np.zeros(3, np.int64),
        evictions=np.zeros(3, np.int64),
        arrival_s=column([10.0, 80.0, 90.0]),
        running=column([True, False, False]),
        decoding=column([True, False, False]),
    )


def test_one_that_fits_passes_one_that_does_not():
    assert Best().form_batch(held_up(200)).tokens.tolist() == [1, 0, 200]


def test_nobody_passes_who_would_delay_the_one_passed():
    # 599 tokens are free beside the token that runs, and 400 more when it has left: 299 are to spare beside 700
    assert Best().form_batch(held_up(299)).tokens.tolist() == [1, 0, 299]
    assert Best().form_batch(held_up(300)).tokens.tolist() == [1, 0, 0]


def test_nobody_passes_where_first_come_is_first_served():
    assert Best(patience=0.0).form_batch(held_up(200)).tokens.tolist() == [1, 0, 0]


def test_nobody_passes_one_that_has_waited_long_enough():
    view = held_up(200)
    long = replace(view, arrival_s=view.now_s - np.array([90.0, PASSED * 12.0, 10.0]))
    assert Best().form_batch(long).tokens.tolist() == [1, 0, 0]
    short = replace(view, arrival_s=view.now_s - np.array([90.0, PASSED * 12.0 - 1e-3, 10.0]))
    assert Best().form_batch(short).tokens.tolist() == [1, 0, 200]


@pytest.mark.slow
@examples(60, fast=6)
@given(engine_runs(), st.sampled_from([(1, 0), (3, 40), (600, 7)]))
def test_what_is_remembered_of_the_queue_changes_no_decision(run, window_seed):
    trace, engine, seed = run
    window, more = window_seed
    policy = Best(window=window, patience=0.1)
    plain = simulate_engine(trace, policy, engine=engine, seed=seed + more, door="plain")
    assert simulate_engine(trace, policy, engine=engine, seed=seed + more, door="compiled").digest == plain.digest
    forgets = simulate_engine(trace, Forgets(policy), engine=engine, seed=seed + more)
    assert forgets.digest == plain.digest


class Forgets:
    """`best` without what it keeps only to look less often."""

    memory_size = Best.memory_size

    def __init__(self, policy):
        self.policy = policy

    def form_batch(self, view):
        memory = view.memory.copy()
        memory[[COUNT, FEWEST]] = 0
        return self.policy.form_batch(replace(view, memory=memory))


def test_a_target_holds_the_time_between_tokens():
    engine = Engine(kv_tokens=40_000, token_budget=2048)
    law = TokenBudget()
    free, held = (
        simulate_engine(crowded(), Best(target_s=t, paced=False), engine=engine, batch_time=law) for t in (0.0, 0.05)
    )
    assert held.summary["tbt_p999_s"] < 0.055
    assert free.summary["tbt_p999_s"] > 0.1


def paced_and_not(law, trace=None, budget=512):
    engine = Engine(kv_tokens=12_000, token_budget=budget)
    return [simulate_engine(trace or crowded(), Best(paced=p), engine=engine, batch_time=law) for p in (True, False)]


def test_prefills_below_the_knee_cost_no_time():
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=96)
    paced, free = paced_and_not(law)
    assert paced.totals.prefill_tokens > 1e5
    assert paced.totals.busy_s < 0.85 * free.totals.busy_s
    assert paced.summary["tbt_p99_s"] < 0.5 * free.summary["tbt_p99_s"]
    assert paced.summary["e2e_mean_s"] < 0.7 * free.summary["e2e_mean_s"]


@pytest.mark.slow
def test_both_doors_agree_at_the_knee():
    engine = Engine(kv_tokens=8_000, token_budget=512, block_tokens=16)
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=96)
    plain, fast = (
        simulate_engine(crowded(150), Best(), engine=engine, batch_time=law, door=door) for door in ("plain", "compiled")
    )
    assert plain.totals.evictions > 0
    assert plain.digest == fast.digest


def test_where_no_token_is_free_nothing_is_held_back():
    law = TokenBudget(c_s=0.03, a_s=0.0003, b0=0)
    paced, free = paced_and_not(law)  # which differ by the batches that are probes
    assert paced.summary["e2e_mean_s"] < 1.01 * free.summary["e2e_mean_s"]
    assert paced.totals.makespan_s < 1.01 * free.totals.makespan_s


@pytest.mark.slow
def test_prefills_and_decodes_take_turns_where_batches_of_both_take_longer():
    """On a profile in whose measurements a mixed batch takes longer than one of each."""
    engine, trace = Engine(kv_tokens=450_000, block_tokens=16), crowded(300)
    chat = replace(trace, arrival_s=trace.column("arrival_s") / 3.0)
    run = simulate_engine(chat, Best(), engine=engine, batch_time=Profile("rtxpro6000-llama31-8b"))
    mixed = simulate_engine(chat, Best(paced=False), engine=engine, batch_time=Profile("rtxpro6000-llama31-8b"))
    assert run.summary["e2e_mean_s"] < 0.98 * mixed.summary["e2e_mean_s"]
    plain = simulate_engine(chat, Best(), engine=engine, batch_time=Profile("rtxpro6000-llama31-8b"), door="plain")
    assert plain.digest == run.digest


def test_long_prompts_and_short_outputs_are_never_held_back_in_the_long_run():
    rng = np.random.default_rng(5)
    trace = Trace(
        prompt_tokens=rng.integers(500, 3000, 500),
        output_tokens=rng.integers(2, 20, 500),
        arrival_s=np.sort(rng.uniform(0, 300, 500)),
    )
    paced, free = paced_and_not(TokenBudget(c_s=0.03, a_s=0.0003, b0=96), trace, 2048)
    assert paced.totals.makespan_s < 1.02 * free.totals.makespan_s
    assert paced.summary["e2e_mean_s"] < 1.05 * free.summary["e2e_mean_s"]


@pytest.mark.parametrize(("field", "value"), [("watermark", 1.0), ("patience", -1.0), ("window", 0), ("room", float("nan"))])
def test_a_bad_option_is_named(field, value):
    with pytest.raises(InputError, match=field):
        Best(**{field: value})
