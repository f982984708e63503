"""The parts of BalanceRoute as tests call them: plain, with working space of their own."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tests.oracles.balance_route import discounts
from tests.scheduling._views import plain

from evenstep.routing.balance_route import f_score
from evenstep.routing.balance_route.f_score import FScore

value = plain(f_score.value)


def peak(score: FScore) -> tuple[float, float, float]:
    """`f_score.peak`."""
    steps = score.margins.size
    return plain(f_score.peak)(score, np.full(steps, -7.0), np.full(steps, -7))


@st.composite
def scores(draw: st.DrawFn) -> FScore:
    """Scores of a horizon of 0..4 steps, some with a level peak, some that never fall."""
    H = draw(st.integers(0, 4))
    margins = draw(st.lists(st.integers(0, 60), min_size=H + 1, max_size=H + 1))
    weights = discounts(draw(st.sampled_from([1.0, 0.9, 0.5])), H)
    reward = draw(st.sampled_from([1.0, float(weights.sum()), 0.25]))
    return FScore(np.array(margins, float), weights, reward, float(draw(st.sampled_from([0, 1, 2, 16]))))
