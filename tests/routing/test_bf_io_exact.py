"""The exact solver against brute force, and the fast search against the exact solver."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.bf_io_moment import Moment
from tests.oracles.bf_io_objective import objective
from tests.routing._routed import moment
from tests.strategies import routing_views

from evenstep.request import F8, I8
from evenstep.routing.bf_io.exact import Instance, instance, solve
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.view import HOLD, RoutingView, broken_rule


def brute_force(asked: Instance) -> float:
    """Least J over all answers that admit `count` requests, the forced among them."""
    best = np.inf
    choices = [HOLD, *np.flatnonzero(asked.free_slots > 0)]
    for answer in itertools.product(choices, repeat=asked.size.size):
        worker = np.array(answer, np.int64)
        sent = np.bincount(worker[worker != HOLD], minlength=asked.group.size)
        full = (worker != HOLD).sum() == asked.count and (sent <= asked.free_slots).all()
        if full and (worker[: asked.forced] != HOLD).all():
            best = min(best, objective(asked, worker))
    return best


@settings(max_examples=25, deadline=None)
@given(routing_views(kv_limited=False, horizon=1, workers=(1, 3), waiting=(1, 4)))
def test_exact_equals_brute_force(view: RoutingView) -> None:
    policy = BFIO(horizon=1, discount=0.5, age_limit=2.0, exact=True)
    asked, decision = instance(view, 1, 0.5, 0, 2.0), policy.route(view)
    if asked.count == 0:
        return
    best = brute_force(asked)
    assert objective(asked, decision.worker) == pytest.approx(best, abs=1e-3)
    assert decision.bound <= best + 1e-3


@settings(max_examples=25, deadline=None)
@given(routing_views(kv_limited=True, waiting=(1, 5), workers=(1, 3)))
def test_exact_admits_at_least_as_many_as_the_search_within_the_kv_limit(view: RoutingView) -> None:
    fast, exact = BFIO(age_limit=0.0).route(view), BFIO(age_limit=0.0, exact=True).route(view)
    assert broken_rule(view, exact) == ""
    assert (exact.worker != HOLD).sum() >= (fast.worker != HOLD).sum()


def random_instance(random: np.random.Generator, slots: int, horizon: int, heavy: bool) -> Instance:
    """Up to 8 workers that were even before some of their requests ended; three times as many wait as slots are free."""

    def prompts(count: int) -> F8:
        if heavy:
            return np.clip(np.rint(random.lognormal(np.log(4000), 1.1, count)), 16, 60_000)
        return np.clip(np.rint(random.lognormal(6.1, 1.15, count)), 4, 4096)

    workers = min(slots, 8)
    free: I8 = np.bincount(random.integers(0, workers, slots), minlength=workers).astype(np.int64)
    level = 80.0 * prompts(400).mean()
    load = np.zeros((workers, horizon + 1))
    for g in range(workers):
        load[g, 0] = max(0.0, level * (1 + 0.01 * random.standard_normal()) - prompts(int(free[g])).sum())
        ends = random.random(horizon) < 0.25
        load[g, 1:] = np.maximum(0.0, load[g, 0] + np.cumsum(72.0 - ends * prompts(horizon)))
    size, growth = prompts(3 * slots), np.arange(horizon + 1.0)
    return Instance(
        np.zeros(workers, np.int64),
        free,
        np.full(workers, np.inf),
        np.rint(load),
        size[:, None] + growth,
        size,
        np.ones(horizon + 1),
        0,
        slots,
    )


def fast_answer(asked: Instance) -> I8:
    steps = asked.weight.size
    view = moment(
        asked.load[:, 0].tolist(),
        asked.free_slots.tolist(),
        asked.size.tolist(),
        projections=asked.load,
        growth=np.arange(float(steps)),
        mean_wait_s=0.0,
    )
    return BFIO(horizon=steps - 1).route(view).worker


@pytest.mark.slow
@pytest.mark.parametrize("slots", [2, 8])
def test_the_search_is_near_the_optimum(slots: int) -> None:
    """Gap in shares of the imbalance of admitting nothing; benchmarks/bench_bf_io_gap.py has all 200 instances."""
    random = np.random.default_rng(slots)
    gaps: list[float] = []
    for horizon, heavy in itertools.product((0, 10), (False, True)):
        asked = random_instance(random, slots, horizon, heavy)
        found = fast_answer(asked)
        best, _ = solve(asked, found, relative_gap=1e-4, seconds=5.0)
        nothing = objective(asked, np.full(asked.size.size, HOLD))
        gaps.append((objective(asked, found) - objective(asked, best)) / nothing)
    assert max(gaps) < 0.05
    assert float(np.mean(gaps)) < 0.01


@settings(max_examples=10, deadline=None)
@given(routing_views(kv_limited=False, waiting=(2, 6)))
def test_the_exact_answer_is_never_worse_than_the_fast_one(view: RoutingView) -> None:
    view = replace(view, waiting_steps=np.full(view.waiting_id.size, np.nan))
    asked = instance(view, 0, 1.0, 0, 0.0)
    if asked.count:
        fast, exact = (
            BFIO(age_limit=0.0).route(view).worker,
            BFIO(age_limit=0.0, exact=True).route(view).worker,
        )
        assert objective(asked, exact) <= objective(asked, fast) + 1e-6


@given(
    routing_views(horizon=2),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([0, 3]),
    st.sampled_from([0.0, 2.0]),
)
def test_the_exact_solver_sees_what_the_search_sees(
    view: RoutingView, discount: float, window: int, age_limit: float
) -> None:
    found = instance(view, 2, discount, window, age_limit)
    expected = Moment.of(view, 2, discount, 0.0, window, age_limit)
    assert (found.forced, found.count) == (expected.forced, expected.count)
    for name in ("load", "profile", "size", "weight"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    together = found.group[:, None] == found.group
    assert np.array_equal(together, expected.group[:, None] == expected.group)
