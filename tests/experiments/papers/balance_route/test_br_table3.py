"""BalanceRoute Table 3 at its reduced size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route.br_table3 import _judged
from evenstep.request import Trace


@pytest.mark.slow
def test_memorised_ranks_better_than_survival_where_prompts_return():
    found = quick("br-table3")
    one, other = (ours(found, f"heavy, {p}, H = 40", "stage-1 AUC") for p in ("memorised", "survival"))
    assert other < one <= 1
    papers = {r.paper for r in found.findings.rows if r.quantity == "stage-2 MAE"}
    assert papers == {5.4, 20.1, 2.9}


def test_equal_lengths_are_predicted_without_error():
    trace = Trace(np.full(400, 10, np.int64), np.full(400, 100, np.int64))
    scores = _judged(trace, "survival", (40,))[40]
    assert (scores["auc"], scores["brier"], scores["mae"]) == (1.0, 0.0, 0.0)
    assert scores["accepted"] == pytest.approx(3 / 7)  # ages 64, 80, 96 of 0, 16, ..., 96


def test_a_score_without_a_value_is_nan():
    trace = Trace(np.full(40, 10, np.int64), np.full(40, 10, np.int64))
    assert math.isnan(_judged(trace, "survival", (40,))[40]["auc"])
