"""Theorem 1 at a reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.wait.wait_scaling import LAW, PAIR, THRESHOLDS, slopes
from evenstep.theory.fluid import Types
from evenstep.theory.wait_thresholds import solved


def test_equality_is_equality_and_strict_is_strict():
    types = Types((1.0, 1.0), PAIR.prompts, PAIR.outputs, LAW.d0_s, LAW.d1_s)
    equal, strict = (solved(types, np.array(THRESHOLDS[kind])) for kind in ("equality", "strict"))
    assert equal.iteration_s == pytest.approx(1.0) and strict.iteration_s == pytest.approx(1.45)


def test_slopes_are_those_of_the_logarithms():
    runs = {("strict", zeta): {"latency": np.array([3.0 * zeta**2, 5.0 / zeta])} for zeta in (1, 4, 16)}
    assert slopes(runs, "strict", "latency", (1, 4, 16)).tolist() == pytest.approx([2.0, -1.0])


def test_latency_grows_with_equality_alone_and_the_gap_shrinks_faster_without():
    found = quick("wait-scaling", seeds=12)
    slope = {(r.case, r.quantity): r.ours for r in found.findings.rows if r.quantity.startswith("slope")}
    flat, root = (slope[kind, "slope of log latency"] for kind in ("strict", "equality"))
    fast, slow = (slope[kind, "slope of log throughput gap"] for kind in ("strict", "equality"))
    assert -0.05 < flat.low < flat.high < 0.05
    assert 0.25 < root.low < root.high < 0.65
    assert -1.15 < fast.low < fast.high < -0.85
    assert -0.85 < slow.low < slow.high < -0.25
