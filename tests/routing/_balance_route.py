"""The parts of BalanceRoute as tests call them: plain, with working space of their own."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
from hypothesis import strategies as st
from tests.oracles.balance_route import discounts
from tests.routing._routed import rule_view

import evenstep.routing.balance_route.f_score as of_score
from evenstep.compiled import as_plain
from evenstep.routing.balance_route.assign import AssignWork, Settings, set_up
from evenstep.routing.balance_route.f_score import FScore
from evenstep.routing.view import HOLD, RoutingView

value = as_plain(of_score.value)


def peak(score: FScore) -> tuple[float, float, float]:
    """`f_score.peak`."""
    steps = score.margins.size
    return as_plain(of_score.peak)(score, np.full(steps, -7.0), np.full(steps, -7))


@st.composite
def scores(draw: st.DrawFn) -> FScore:
    """Scores of a horizon of 0..4 steps, some with a level peak, some that never fall."""
    H = draw(st.integers(0, 4))
    margins = draw(st.lists(st.integers(0, 60), min_size=H + 1, max_size=H + 1))
    weights = discounts(draw(st.sampled_from([1.0, 0.9, 0.5])), H)
    reward = draw(st.sampled_from([1.0, float(weights.sum()), 0.25]))
    return FScore(np.array(margins, float), weights, reward, float(draw(st.sampled_from([0, 1, 2, 16]))))


def started(view: RoutingView, horizon: int = 0, discount: float = 1.0, candidates: int = 8) -> AssignWork:
    """The working space of a decision that is set up; what the arrays held before does not matter."""
    options = SimpleNamespace(horizon=horizon, candidates=candidates)
    W = view.waiting_id.size
    names = {"workers": view.load.size, "waiting": W, "options": options}
    marks = [hint.__metadata__ for hint in get_type_hints(AssignWork, include_extras=True).values()][3:]
    arrays = [np.full(eval(length, dict(names)), -7, array.dtype) for array, length in marks]
    work = AssignWork(np.full(W, HOLD, np.int64), np.zeros(0, np.int64), np.full(1, np.nan), *arrays)
    assert as_plain(set_up)(discount, rule_view(view), work) == view.free_slots.sum()
    return work


def settings(**options: Any) -> Settings:
    """Settings of the paper, unless `options` say other."""
    usual = Settings(1.0, math.nan, math.nan, 8, False, False, False, False)
    return usual._replace(**options)
