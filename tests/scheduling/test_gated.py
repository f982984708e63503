"""Gates: who is let through, who waits, and what happens when memory is full of those that wait."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, engine_views, examples

from evenstep.cost.unit import Unit
from evenstep.errors import InputError, PolicyError
from evenstep.request import Trace
from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.checks import check
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.order import ARRIVAL
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.sim.network.description import load
from evenstep.sim.network.simulation import simulate_network

POLICIES = st.sampled_from(
    [
        Wait((2, 3)),
        Wait((3, 1, 2), 0.0),
        Wait((40, 1), 0.3),
        NestedWait((3, 2, 1), (4, 20), (), 0.05),
        NestedWait((2, 1, 4, 3), (7,), (12,), 5.0),
        NestedWait((3, 2), (7,), (5, 12), 0.0),
        NestedWait((2,), (), (20,)),
        Wait((2, 3), 0.3, 0.4),
        Wait((1, 9, 2), 0.1, 0.1),
        NestedWait((3, 2, 1), (1, 9), (), 0.05, 0.2),
        NestedWait((2, 1, 4, 3), (7,), (12,), 0.5, 0.05, 0.0),
        NestedWait((9, 2), (6,), (5, 12), 0.2, 1.0, 2.0),
    ]
)


@pytest.mark.slow
@examples(40, fast=10)
@given(run=engine_runs(), policy=POLICIES)
def test_both_doors_agree_with_any_gates_and_everybody_ends(run, policy):
    trace, engine, seed = run
    plain, fast = (simulate_engine(trace, policy, engine=engine, seed=seed, door=door) for door in ("plain", "compiled"))
    assert plain.digest == fast.digest and plain.totals.counted == fast.totals.counted
    assert plain.totals.requests == len(trace)


def runs(policy, output, *, arrival_s=None, memory=0, door="compiled", **options):
    trace = Trace(
        prompt_tokens=np.ones(len(output), np.int64),
        output_tokens=np.array(output),
        arrival_s=None if arrival_s is None else np.array(arrival_s, float),
    )
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory)
    return simulate_engine(trace, policy, engine=engine, batch_time=Unit(), door=door, **options)


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_memory_full_of_those_that_pause_is_freed_by_the_breaker(door):
    policy = NestedWait((1, 9), (2,), (), 1e6)
    done = runs(policy, [4] * 6, memory=8, door=door)
    assert done.totals.requests == 6
    assert done.totals.counted["gates_broken"] > 0


def test_the_last_of_a_burst_starts_after_the_maximum_hold_time():
    done = runs(Wait((3,), 5.0), [1, 1, 1, 1], arrival_s=[0, 0, 0, 2])
    assert done.requests.scheduled_s.tolist() == [0.0, 0.0, 0.0, 7.0]
    assert done.totals.counted["gates_broken"] == 0


def test_without_a_maximum_hold_time_the_last_of_a_burst_is_held_for_ever():
    with pytest.raises(PolicyError, match="holds for ever"):
        runs(Wait((3,), math.inf), [1, 1, 1, 1])


@pytest.mark.parametrize("engine", [{"data_parallel": 1}, {"data_parallel": 2}])
@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_a_run_with_a_time_limit_ends_there_although_the_gates_would_hold_for_ever(door, engine):
    trace = Trace(np.full(4, 1), np.full(4, 2), arrival_s=np.zeros(4))
    wait = Wait((5,), math.inf)
    run = simulate_engine(trace, wait, engine=Engine(**engine), batch_time=Unit(), door=door, until_s=7.0)
    assert (run.totals.unfinished, run.totals.makespan_s) == (4, 7.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2.5])
def test_a_threshold_or_an_end_that_is_not_whole_is_refused(bad):
    with pytest.raises(InputError, match="thresholds"):
        Wait((bad,))
    with pytest.raises(InputError, match="ends"):
        NestedWait((3, 2), (bad,))


@given(engine_views())
def test_an_evicted_request_passes_its_gate(view):
    policy = Wait((1000,), math.inf)
    shown = replace(view, memory=np.zeros(policy.memory_size, np.int64))
    assert not policy.form_batch(shown).tokens.any()
    first = int(view.running.sum())
    if first < view.left.size:
        once = replace(shown, evictions=(np.arange(view.left.size) == first).astype(np.int64))
        assert (policy.form_batch(once).tokens[first] > 0) == Filling(view).offer(first)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [Wait(), NestedWait(), Wait((3, 2), 1.0, 0.4), NestedWait((3, 2), (7,), (20,), 1.0, 0.4, 0.5)],
    ids=str,
)
def test_every_promise_is_kept_with_and_without_solving(policy):
    assert [f"{f.name}: {f.message}" for f in check(policy) if not f.passed] == []


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_memory_full_of_those_that_pause_is_freed_while_thresholds_are_solved(door):
    done = runs(NestedWait((1, 9), (2,), (), 1e6, 1.0), [4] * 6, memory=8, door=door)
    assert done.totals.requests == 6 and done.totals.counted["gates_broken"] > 0


def test_those_who_entered_under_a_higher_threshold_do_not_queue_at_every_stage():
    view = next(v for v in check_views(ARRIVAL, 0) if v.decoding.sum() > 3 and v.batch_limit > 12)
    together = replace(
        view,
        produced=np.where(view.decoding, 5, view.produced),
        evictions=np.zeros_like(view.evictions),
        token_budget=1 << 20,
        kv_capacity=1 << 30,
        kv_free=(1 << 30) - int(view.resident.sum()),
    )
    for solve_s, many in ((0.0, 1), (1e6, int(together.decoding[together.running].sum()))):
        policy = NestedWait((1,), (), (), 0.0, solve_s)
        tokens = policy.form_batch(replace(together, memory=np.zeros(policy.memory_size, np.int64))).tokens
        assert (tokens[together.running & together.decoding] > 0).sum() == many


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [
        (Wait, {"solve_s": -1.0}, "solve_s is -1.0"),
        (NestedWait, {"solve_s": math.inf}, "solve_s is inf"),
        (NestedWait, {"slack": -0.5}, "slack is -0.5"),
        (NestedWait, {"slack": 1.0}, "slack is 1.0; expected 0 without solve_s"),
    ],
)
def test_a_window_or_a_slack_that_is_none_is_refused(kind, options, field):
    with pytest.raises(InputError, match=field):
        kind(**options)


NETWORK = """
version: 1
until_s: 60
engines:
  e:
    engine: token-budget=0,batch-limit=0,first-token=decode
    batch_time: affine-kv:d0-s=0.1,d1-s=0.000001
    policy: wait:thresholds=4/4,solve-s=10
tasks:
  a: {{arrivals: {{process: poisson, requests_per_s: 40}}, calls: {{x: {lengths}}}}}
  b: {{arrivals: {{process: poisson, requests_per_s: 40}}, calls: {{x: {lengths}}}}}
"""


def test_arrivals_are_counted_wherever_the_queue_puts_them(tmp_path):
    """In a network the queue need not be in order of arrival: with a priority, the last one may be an old call of b."""
    lengths = "{engine: e, prompt: {law: uniform, low: 10, high: 300}, output: {law: uniform, low: 1, high: 20}}"
    text, path = NETWORK.format(lengths=lengths), tmp_path / "network.yaml"
    found = []
    for own in ("", "\n    priority: [a.x, b.x]"):
        path.write_text(text.replace("solve-s=10", f"solve-s=10{own}"))
        found.append(simulate_network(load(path)).engines["e"].totals.counted)
    assert found[0]["thresholds_changed"] == found[1]["thresholds_changed"] > 0
    assert [found[1][name] for name in sorted(found[1])] == [found[0][name] for name in sorted(found[0])]
