"""The compiled cluster simulator: equal to the reference in every bit, through both doors, and true to what is known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sim.doors import STEP, differences
from tests.sim.policies import Fingerprint, Holds, Keyed, Oldest
from tests.strategies import clusters, small_traces

from evenstep import compiled, names
from evenstep.cost.linear import Linear
from evenstep.cost.unequal import Unequal
from evenstep.errors import InputError, PolicyError
from evenstep.predict.oracle import Oracle
from evenstep.request import Trace
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.view import RoutingDecision, horizon_of
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Cluster, Outage, simulate

ONE = Linear(overhead_s=1.0, per_token_s=1.0)
PREDICTORS = {
    "oracle": Oracle,
    "keyed": Keyed,
    "often": lambda: Keyed(2),
    "literal": lambda: Keyed(5, refresh="literal"),
}
UNEQUAL = [
    Unequal(share=0.25, overhead_s=0.25, per_token_s=0.01),
    Unequal(share=1.0, overhead_s=0.25, knots="0:0/20:0.1/60:0.9"),
]
quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class Pairs:
    """The first two requests to worker 0, the next two to worker 1."""

    def route(self, view):
        return RoutingDecision(np.arange(view.waiting_id.size) // 2)


def small(policy):
    """A policy with a short look-ahead where it has one."""
    return dataclasses.replace(policy, horizon=3) if horizon_of(policy) > 3 else policy


def policies(*, kernels: bool):
    """Every routing policy in its defaults, with or without a compiled twin."""
    built = [(name, small(names.build("routing", {"name": name}))) for name in names.members("routing")]
    return [pytest.param(p, id=n) for n, p in built if (compiled.kernel_of(p) is not None) == kernels]


@quick
@given(
    st.data(),
    st.sampled_from(sorted(PREDICTORS)),
    st.sampled_from([0, 1, 3, 8]),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
def test_every_view_and_every_record_equal_those_of_the_reference(data, predictor, horizon, hold, expects):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace))
    words = data.draw(st.integers(0, 2))
    policy = Fingerprint(horizon=horizon, hold=hold, memory_size=words, expects_loads=expects)
    make = PREDICTORS[predictor] if horizon else None
    assert differences(trace, policy, cluster=cluster, predictor=make, seed=7) == []


@pytest.mark.parametrize("policy", policies(kernels=True))
@settings(quick, max_examples=settings.default.max_examples // 5)  # times the policies
@given(data=st.data(), seed=st.integers(0, 3))
def test_both_doors_and_the_reference_decide_alike(policy, data, seed):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace))
    make = Oracle if horizon_of(policy) else None
    assert differences(trace, policy, cluster=cluster, predictor=make, seed=seed, doors=("compiled", "plain")) == []


@quick
@given(st.data(), st.sampled_from([0, 3]), st.sampled_from([0.0, 0.3]), st.sampled_from(UNEQUAL))
def test_a_law_that_sees_the_longest_is_the_same_law_in_reference_and_kernel(data, horizon, hold, law):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace))
    make = Oracle if horizon else None
    assert (
        differences(
            trace,
            Fingerprint(horizon=horizon, hold=hold),
            cluster=cluster,
            predictor=make,
            step_time=law,
            seed=7,
        )
        == []
    )
    assert (
        differences(
            trace,
            names.build("routing", {"name": "jsq"}),
            cluster=cluster,
            step_time=law,
            doors=("compiled",),
        )
        == []
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "fleet",
    [
        Cluster(3, (5, 4, 3), pool=9),
        Cluster(4, 6, arrivals="timed", kv_tokens=150.0, outages=(Outage(9, 1), Outage(30, 1, back=True))),
        Cluster(4, 6, arrivals="timed", dispatch="instant", queue_depth=2, groups=(1, 3)),
        Cluster(2, 8, arrivals="closed", users=9, think_s=0.5, drift=Drift(growth=0.25, tokens_per_step=2)),
        Cluster(2, 8, pool=9, drift=Drift(sequence=(-9.0, 5.0, 0.0))),
    ],
    ids=["saturated", "memory and outages", "instant", "closed", "loads that fall"],
)
def test_the_longest_is_right_while_hundreds_of_requests_come_and_go(fleet):
    random = np.random.default_rng(11)
    trace = Trace(
        np.ceil(random.pareto(1.2, 300) * 5).clip(1, 140).astype(np.int64),
        random.integers(1, 30, 300),
        arrival_s=np.sort(random.random(300) * 90.0),
    )
    for law in UNEQUAL:
        assert differences(trace, FCFS(), cluster=fleet, step_time=law, doors=("compiled", "plain"), seed=2) == []


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_a_step_takes_a_share_of_the_way_to_the_longest(door):
    trace = Trace(np.array([3, 5, 2]), np.array([4, 1, 1]))
    law = Unequal(share=0.5, overhead_s=1.0, per_token_s=1.0)
    out = simulate(trace, FCFS(), cluster=Cluster(1, 3, pool=3), step_time=law, door=door)
    assert out.steps is not None
    # 10 tokens and 3 requests as long as 5: 10 + 0.5 * (15 - 10); then one request alone
    assert out.steps.duration_s.tolist() == [13.5, 5, 6, 7]
    assert out.steps.envelope.tolist() == [10, 4, 5, 6]
    two = Trace(np.array([9, 1, 5, 5]), np.array([1, 1, 1, 1]))
    spread = simulate(two, Pairs(), cluster=Cluster(2, 2, pool=4), step_time=law, door="plain")
    assert spread.steps is not None  # both workers hold 10 tokens; one takes 14 seconds, the other 10
    assert spread.steps.duration_s.tolist() == [15.0] and spread.steps.local_sum_s.tolist() == [24.0]
    assert spread.summary["idle_share"] == pytest.approx(1 - 12 / 14)


@quick
@given(st.data(), st.sampled_from([FCFS(), Oldest()]))
def test_the_books_balance(data, policy):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace, plain=True, groups=(1, 1)))
    out = simulate(trace, policy, cluster=cluster, step_time=ONE)
    s, o = trace.prompt_tokens, trace.output_tokens
    work = int((o * s + o * (o - 1) // 2).sum())
    assert out.requests is not None and out.steps is not None
    assert out.requests.request_id.tolist() == list(range(len(trace)))  # every request once
    assert out.totals.load_steps == work == out.steps.load_sum.sum()
    assert out.totals.active_steps == o.sum() == out.steps.running.sum() == out.steps.tokens.sum()
    assert np.array_equal(out.requests.finished_step - out.requests.admitted_step, o - 1)
    assert (out.requests.admitted_s >= out.requests.visible_s).all()
    G, places = cluster.workers, sum(cluster.slots_of)
    steps = max(math.ceil(int(o.sum()) / places), int(o.max()))
    assert out.totals.makespan_s >= steps + work / G


@quick
@given(st.data())
def test_one_barrier_group_is_no_groups(data):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace, groups=(1, 1)))
    runs = [
        simulate(trace, Oldest(), cluster=dataclasses.replace(cluster, groups=groups), step_time=STEP)
        for groups in ((), (cluster.workers,))
    ]
    assert runs[0].digest == runs[1].digest


@quick
@given(st.data())
def test_the_digest_is_the_same_with_and_without_records(data):
    trace = data.draw(small_traces())
    cluster = data.draw(clusters(trace))
    kept = simulate(trace, FCFS(), cluster=cluster, step_time=STEP)
    lean = simulate(trace, FCFS(), cluster=cluster, step_time=STEP, records=False)
    assert kept.digest == lean.digest and lean.requests is None
    assert dataclasses.asdict(kept.totals) == dataclasses.asdict(lean.totals)


@quick
@given(st.data(), st.sampled_from([1.0, 3.0]))
def test_a_large_pool_of_equal_requests_is_balanced(data, prompt):
    workers, slots = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    rows = 3 * workers * slots
    trace = Trace(np.full(rows, int(prompt)), np.full(rows, 4))
    out = simulate(trace, FCFS(), cluster=Cluster(workers, slots, pool=rows), step_time=ONE)
    assert out.steps is not None and (out.steps.envelope == out.steps.load_min).all()


def test_two_requests_in_one_batch_take_27_seconds():
    trace = Trace(np.array([3, 5]), np.array([4, 1]))
    for door in ("plain", "compiled"):
        out = simulate(trace, FCFS(), cluster=Cluster(1, 2), step_time=ONE, door=door)
        assert out.steps is not None
        assert out.steps.envelope.tolist() == [8, 4, 5, 6] and out.totals.makespan_s == 27


def test_a_step_does_not_cost_more_in_a_longer_run():
    """Decisions, steps and requests grow together; what the loop does beside is constant."""
    counts = []
    for rows in (200, 400, 800):
        trace = Trace(np.full(rows, 5), np.full(rows, 3))
        out = simulate(trace, FCFS(), cluster=Cluster(2, 4, pool=16), step_time=ONE)
        counts.append((out.totals.steps, out.totals.decisions))
    assert counts == [(75, 25), (150, 50), (300, 100)]


def test_a_policy_that_breaks_its_contract_is_named_with_the_decision():
    class Greedy:
        def route(self, view):
            return RoutingDecision(np.zeros(view.waiting_id.size, dtype=np.int64))

    trace = Trace(np.array([1, 1]), np.array([1, 1]))
    with pytest.raises(PolicyError, match="decision 0.*over capacity: worker 0"):
        simulate(trace, Greedy(), cluster=Cluster(1, 1), step_time=ONE)


def test_a_policy_that_holds_for_ever_is_an_error():
    trace = Trace(np.array([1, 1]), np.array([1, 1]))
    with pytest.raises(PolicyError, match="policy Holds holds 2 "):
        simulate(trace, Holds(), cluster=Cluster(1, 1, may_hold=True), step_time=ONE)


def test_a_horizon_without_predictor_is_an_error():
    trace = Trace(np.array([1]), np.array([1]))
    with pytest.raises(InputError, match="predictor"):
        simulate(trace, Fingerprint(horizon=2), cluster=Cluster(1, 1), step_time=ONE)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"workers": 0}, "workers"),
        ({"slots": 0}, "slots"),
        ({"workers": 2, "slots": (1, 2, 3)}, "slots"),
        ({"workers": 3, "groups": (1, 1)}, "groups"),
        ({"workers": 2, "groups": (0, 2)}, "groups"),
        ({"pool": 0}, "pool"),
        ({"users": -1}, "users"),
        ({"queue_depth": -2}, "queue_depth"),
        ({"kv_tokens": 0.0}, "kv_tokens"),
        ({"kv_tokens": math.nan}, "kv_tokens"),
        ({"kv_reserve": -1.0}, "kv_reserve"),
        ({"prefill_base_s": math.inf}, "prefill_base_s"),
        ({"prefill_per_token_s": -1.0}, "prefill_per_token_s"),
        ({"think_s": -0.5}, "think_s"),
        ({"workers": 2, "outages": (Outage(0, 2),)}, "outages"),
        ({"outages": (Outage(-1, 0),)}, "outages"),
    ],
)
def test_a_cluster_names_the_field_that_is_out_of_range(options, field):
    with pytest.raises(InputError) as error:
        Cluster(**options)
    assert error.value.where == "cluster" and error.value.field == field


def test_a_changed_copy_of_a_run_measures_the_same():
    run = simulate(Trace(np.array([3, 5]), np.array([4, 1])), FCFS(), cluster=Cluster(workers=1, slots=2), step_time=ONE)
    first = run.summary
    assert dataclasses.replace(run, trace=None).summary == first
    assert first["energy_busy_idle_j"] == pytest.approx(run.steps.energy_busy_idle_j.sum())
