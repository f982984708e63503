"""BF-IO Fig. 1 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.bf_io.bfio_fig1 import MEAN, MEDIAN, _claim
from evenstep.measure.comparison import Interval
from evenstep.report.findings import Row

LEVEL = "load imbalance, mean over steps"


@pytest.mark.slow
def test_idle_shares_fall_with_the_slots_and_stand_beside_the_papers():
    found = quick("bfio-fig1")
    assert {row.paper for row in found.findings.rows} == {MEAN, MEDIAN}
    shares = {name: [ours(found, f"{name}, B = {b}", LEVEL) for b in (6, 12)] for name in ("JSQ", "FCFS")}
    assert shares["JSQ"] == pytest.approx([42.5, 34.6], abs=0.1) and shares["FCFS"] == pytest.approx([43.5, 32.9], abs=0.1)
    assert found.findings.claims[0].holds is None
    assert "B = 6" in found.findings.remark


@pytest.mark.parametrize(
    ("intervals", "holds"),
    [
        ([(50, 47, 53), (24, 23, 25)], True),
        ([(42, 39, 45), (24, 23, 25)], None),
        ([(32, 30, 34), (24, 23, 25)], False),
        ([(50, None, None)], None),
    ],
)
def test_the_verdict_is_an_interval_s(intervals, holds):
    rows = [Row("JSQ", LEVEL, "%", MEAN, Interval(*one)) for one in intervals]
    assert _claim(rows).holds is holds
