"""BalanceRoute Table 3 at its reduced size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.br_table3 import auc, evaluated
from evenstep.request import Trace


@pytest.mark.slow
def test_memorised_ranks_better_than_survival_where_prompts_return():
    found = quick("br-table3")
    one, other = (ours(found, f"heavy, {p}, H = 40", "stage-1 AUC") for p in ("memorised", "survival"))
    assert other < one <= 1
    papers = {r.paper for r in found.findings.rows if r.quantity == "stage-2 MAE"}
    assert papers == {5.4, 20.1, 2.9}


def test_auc_is_the_chance_that_a_positive_ranks_higher():
    scores = np.array([0.1, 0.4, 0.35, 0.8])
    assert auc(scores, np.array([False, False, True, True])) == 0.75
    assert auc(np.ones(4), np.array([False, False, True, True])) == 0.5
    assert math.isnan(auc(scores, np.ones(4, bool)))


def test_equal_lengths_are_predicted_without_error():
    trace = Trace(np.full(400, 10, np.int64), np.full(400, 100, np.int64))
    scores = evaluated(trace, "survival", (40,))[40]
    assert scores["auc"] == 1.0
    assert scores["brier"] == 0.0
    assert scores["mae"] == 0.0
    assert scores["accepted"] == pytest.approx(3 / 7)  # ages 64, 80, 96 of 0, 16, ..., 96
