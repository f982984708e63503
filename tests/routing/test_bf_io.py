"""BF-IO against its promises: slots filled, overdue first, alone exact, options checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.bf_io_objective import objective
from tests.strategies import routing_views

from evenstep import names
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.routing import checks
from evenstep.routing.bf_io.exact import instance
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.view import HOLD, RoutingView, broken_rule
from evenstep.sim.cluster.simulation import Cluster, simulate


def lengths_unknown(view: RoutingView) -> RoutingView:
    return replace(view, waiting_steps=np.full(view.waiting_id.size, np.nan))


def imbalance(view: RoutingView, policy: BFIO, worker: np.ndarray) -> float:
    return objective(instance(view, policy.horizon, policy.discount, 0, 0.0), worker)


@given(routing_views(kv_limited=False, horizon=2))
def test_bf_io_fills_every_slot_it_can(view: RoutingView) -> None:
    decision = BFIO(horizon=2, discount=0.9).route(view)
    assert broken_rule(view, decision) == ""
    assert (decision.worker != HOLD).sum() == min(view.waiting_id.size, view.free_slots.sum())


@given(routing_views(kv_limited=True, horizon=1))
def test_bf_io_never_exceeds_the_kv_limit(view: RoutingView) -> None:
    assert broken_rule(view, BFIO(horizon=1).route(view)) == ""


@given(routing_views(kv_limited=False), st.sampled_from([0.5, 2.0, 8.0]))
def test_bf_io_admits_the_overdue_before_all_others(view: RoutingView, age_limit: float) -> None:
    worker = BFIO(age_limit=age_limit).route(view).worker
    overdue = view.waited_s > age_limit * view.mean_wait_s if view.mean_wait_s > 0 else np.zeros(worker.size, bool)
    free = int(view.free_slots.sum())
    must = min(int(overdue.sum()), free, max(1, free // 4))
    assert (worker[:must] != HOLD).all()


@given(routing_views(kv_limited=False, horizon=2, waiting=(1, 8)), st.booleans(), st.booleans(), st.data())
def test_bf_io_is_exact_when_one_request_is_admitted(
    view: RoutingView, known: bool, alone: bool, data: st.DataObject
) -> None:
    """One free slot and a choice of requests, or one request and a choice of workers."""
    view = view if known else lengths_unknown(view)
    if alone:
        rows = {f: getattr(view, f)[:1] for f in ("waiting_id", "waiting_load", "waited_s", "waiting_steps")}
        rows |= {f: getattr(view, f)[:1] for f in ("waiting_class", "waiting_key")}
        view = replace(view, free_slots=view.free_slots + 1, **rows)
    else:
        free = np.zeros_like(view.free_slots)
        free[data.draw(st.integers(0, free.size - 1))] = 1
        view = replace(view, free_slots=free)
    policy = BFIO(horizon=2, discount=0.9, age_limit=0.0)
    found = imbalance(view, policy, policy.route(view).worker)
    choices = [(i, g) for i in range(view.waiting_id.size) for g in np.flatnonzero(view.free_slots)]
    best = min(imbalance(view, policy, np.where(np.arange(view.waiting_id.size) == i, g, HOLD)) for i, g in choices)
    assert found <= best + 1e-5


@given(routing_views(kv_limited=False, horizon=1, waiting=(0, 12)), st.integers(0, 6))
def test_a_window_holds_what_is_younger(view: RoutingView, window: int) -> None:
    view = lengths_unknown(view)
    admitted = np.flatnonzero(BFIO(horizon=1, window=window).route(view).worker != HOLD)
    count = min(view.waiting_id.size, int(view.free_slots.sum()))
    assert admitted.size == count
    assert window == 0 or count == 0 or admitted.max() < max(window, count)


@given(routing_views(kv_limited=False, horizon=1))
def test_searching_never_does_worse_than_the_greedy_fill(view: RoutingView) -> None:
    greedy, searched = BFIO(horizon=1, moves=0, age_limit=0.0), BFIO(horizon=1, age_limit=0.0)
    before = imbalance(view, greedy, greedy.route(view).worker)
    assert imbalance(view, searched, searched.route(view).worker) <= before + 1e-5


@given(routing_views(kv_limited=False, waiting=(2, 12)))
def test_of_requests_alike_the_oldest_is_admitted(view: RoutingView) -> None:
    alike = replace(lengths_unknown(view), waiting_load=np.full(view.waiting_id.size, 100.0))
    worker = BFIO(age_limit=0.0).route(alike).worker
    count = int((worker != HOLD).sum())
    assert (worker[:count] != HOLD).all()


def test_the_tie_breaker_evens_out_what_the_envelope_leaves_open() -> None:
    """Two requests below an envelope of 100: any placing has the same J, the tie-breaker fills the valley."""
    view = two_workers_below_a_peak()
    assert BFIO(tie_weight=1.0).route(view).worker.tolist() == [1, 2]


def two_workers_below_a_peak() -> RoutingView:
    nothing, load = np.zeros(0), np.array([100.0, 10.0, 30.0])
    zeros, ids = np.zeros(3, np.int64), np.arange(2)
    return RoutingView(
        decision=0,
        seed=0,
        now_s=0.0,
        mean_wait_s=0.0,
        group=zeros,
        queued=zeros,
        queued_load=np.zeros(3),
        load=load,
        free_slots=np.array([0, 1, 1]),
        running=zeros,
        kv_free=np.full(3, np.inf),
        seconds_per_token=np.ones(3),
        waiting_id=ids,
        waiting_load=np.array([40.0, 20.0]),
        waited_s=np.zeros(2),
        waiting_class=np.zeros(2, np.int64),
        waiting_key=ids,
        waiting_steps=np.full(2, np.nan),
        projections=load[:, None],
        growth=np.zeros(1),
        cached_tokens=nothing.reshape(0, 0),
        memory=np.zeros(0, np.int64),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("horizon", -1),
        ("discount", 0.0),
        ("discount", 1.5),
        ("discount", float("nan")),
        ("tie_weight", -1.0),
        ("tie_weight", float("inf")),
        ("starts", 0),
        ("starts", 4),
        ("window", -1),
        ("moves", -1),
        ("age_limit", -0.1),
        ("age_limit", float("nan")),
    ],
)
def test_an_option_out_of_range_is_named(field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"^bf-io: {field} is {value}"):
        BFIO(**{field: value})  # type: ignore[arg-type]


def test_exact_refuses_the_tie_breaker() -> None:
    with pytest.raises(InputError, match=r"bf-io: tie_weight is 1\.0; expected 0 with exact"):
        BFIO(exact=True, tie_weight=1.0)


def test_bf_io_is_found_by_name() -> None:
    built = names.build("routing", names.parse("bf-io:horizon=20,discount=0.9,starts=2,exact=false"))
    assert built == BFIO(horizon=20, discount=0.9, starts=2)


@pytest.mark.parametrize("share", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_the_exact_policy_keeps_every_promise(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` shows it every seventh view: HiGHS takes 10 s for all of them."""
    every = checks.check_views
    monkeypatch.setattr(checks, "check_views", lambda *given, **more: [*every(*given, **more)][::share])
    found = checks.check(BFIO(exact=True))
    assert len(found) == 14 and all(one.passed for one in found)


def test_a_simulation_solves_each_decision_of_the_exact_policy() -> None:
    trace = Trace(np.arange(3, 9), np.full(6, 4))
    for policy, is_bounded in ((BFIO(exact=True), True), (BFIO(), False)):
        run = simulate(trace, policy, cluster=Cluster(2, 2, pool=6), decisions=True)
        assert np.isfinite(run.decisions.bound).all() == is_bounded
    with pytest.raises(InputError, match="door is 'compiled'; expected auto or plain"):
        simulate(trace, BFIO(exact=True), cluster=Cluster(2, 2), door="compiled")
