"""Theorems 1 to 3 at a reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.wait import wait_scaling
from evenstep.experiments.papers.wait.wait_scaling import LAW, NESTED, PAIR, PERIOD_S, RATE, SWING, THRESHOLDS, swung
from evenstep.experiments.reproduce import Setting, reproduce
from evenstep.report.findings import intervals_sentence, json_object
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import segment_work
from evenstep.theory.wait_thresholds import solved


def test_equality_is_equality_and_strict_is_strict():
    types = Types((1.0, 1.0), PAIR.prompts, PAIR.outputs, LAW.d0_s, LAW.d1_s)
    equal, strict = (solved(types, np.array(THRESHOLDS[kind])) for kind in ("equality", "strict"))
    assert equal.iteration_s == pytest.approx(1.0) and strict.iteration_s == pytest.approx(1.45)


def test_nested_thresholds_are_strict_at_the_peak_of_the_rate():
    """Eq. 13: fewer than n_1 arrive in a full batch, and n_2 / n_1 is above the share that goes on, one half."""
    types = Types((1.0, 1.0), PAIR.prompts, PAIR.outputs, LAW.d0_s, LAW.d1_s)
    batch_s = LAW.d0_s + LAW.d1_s * float(np.dot(NESTED, segment_work(types)))
    assert batch_s == pytest.approx(1.6)
    assert RATE * (1 + SWING) * batch_s < NESTED[0] and NESTED[1] > NESTED[0] / 2


def test_a_rate_that_swings_keeps_its_mean():
    steady = np.arange(1, 20_001) / RATE
    moved = swung(steady, SWING)
    counts = np.histogram(moved % PERIOD_S, [0, PERIOD_S / 4, PERIOD_S / 2, 3 * PERIOD_S / 4, PERIOD_S])[0] / steady.size
    assert counts == pytest.approx(0.25 + SWING / (2 * np.pi) * np.array([1, 1, -1, -1]), abs=5e-3)
    assert moved[-1] == pytest.approx(steady[-1])


def test_the_number_of_replicates_is_that_of_the_runs(monkeypatch):
    """The JSON said 5, the default of other experiments."""
    monkeypatch.setattr(wait_scaling, "one", lambda kind, horizon_s, seed, r: np.full(len(wait_scaling.UNITS), 1.0 + r))
    assert json_object(reproduce("wait-scaling", Setting()))["seeds"] == wait_scaling.REPLICATES
    assert json_object(reproduce("wait-scaling", Setting(quick=True)))["seeds"] == 3
    assert json_object(reproduce("wait-scaling", Setting(seeds=2)))["seeds"] == 2


def test_latency_grows_with_equality_alone_and_the_gap_shrinks_faster_without():
    found = quick("wait-scaling", seeds=12)
    slope = {(r.case, r.quantity): r.ours for r in found.findings.rows if r.quantity.startswith("slope")}
    for kind in ("strict", "nested", "nested, rates that change"):
        flat, fast = (slope[kind, f"slope of log {what}"] for what in ("latency", "throughput gap"))
        assert -0.05 < flat.low < flat.high < 0.05
        assert -1.15 < fast.low < fast.high < -0.85
    root, slow = (slope["equality", f"slope of log {what}"] for what in ("latency", "throughput gap"))
    assert 0.25 < root.low < root.high < 0.65
    assert -0.85 < slow.low < slow.high < -0.25


def test_one_replicate_claims_no_intervals(monkeypatch):
    monkeypatch.setattr(wait_scaling, "one", lambda kind, horizon_s, seed, r: np.full(len(wait_scaling.UNITS), 1.0 + r))
    assert intervals_sentence(reproduce("wait-scaling", Setting(quick=True, seeds=1))) == "One replicate: no intervals."
