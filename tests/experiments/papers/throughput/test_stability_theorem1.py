"""Theorem 1 at its reduced size, and the fluid paths."""

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.throughput.stability_theorem1 import POLICIES, SHARE, Path, _claim, _fluid, path
from evenstep.experiments.reproduce import Setting
from evenstep.measure.comparison import Interval


@pytest.mark.slow
def test_the_limit_is_b_over_t_b_within_a_percent_by_interval():
    found = quick("stability-theorem1", seeds=4).findings
    ratios = {row.case: row.ours for row in found.rows if row.paper == 1.0}
    assert len(ratios) == 4
    for case, ratio in ratios.items():
        assert 1 - SHARE < ratio.low <= ratio.high < 1 + SHARE, case
    left = {row.case: row.ours for row in found.rows if row.paper == 0.0}
    assert left.keys() == ratios.keys()
    assert all(0 < share.value < SHARE for share in left.values())
    assert {claim.holds for claim in found.claims if "lengths" in claim.says} == {True}


def test_a_backlog_drains_and_an_overload_grows_as_the_fluid_does():
    quick_size = Setting(quick=True, seeds=2)
    drained, grown = (path(load, quick_size) for load in (0.7, 1.1))
    assert drained.fluid[-1] == 0
    assert grown.fluid[-1] > grown.fluid[0] == drained.fluid[0] == 2_000 * 241
    for one in (drained, grown):
        assert one.work[0] == pytest.approx(one.fluid[0], rel=0.01)
        assert one.apart.value < 0.08


def test_a_claim_is_of_whole_intervals():
    keys = [("constant", 512, policy) for policy in POLICIES[:2]]

    def holds(*ratios):
        return _claim("constant", dict(zip(keys, ratios, strict=True))).holds

    good = Interval(1.0, 0.995, 1.005)
    assert holds(good, good) is True
    assert holds(good, Interval(1.0, 0.9, 1.1)) is None
    assert holds(good, Interval(0.97, 0.96, 0.98)) is False
    none = np.zeros(1)
    assert _fluid({0.9: Path(none, none, none, Interval(0.02, 0.01, 0.03))}).holds is True
    assert _fluid({0.9: Path(none, none, none, Interval(0.3, 0.2, 0.4))}).holds is False
