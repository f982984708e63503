"""BF-IO Fig. 7 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.experiments.papers.bf_io._bf_io import ACCOUNTINGS
from evenstep.experiments.papers.bf_io.bfio_fig7 import _flat
from evenstep.measure.comparison import Interval
from evenstep.report.findings import Row


def test_power_lies_between_idle_and_full_under_both_accountings():
    found = quick("bfio-fig7", seeds=4)
    assert set(found.findings.data["accounting"]) == set(ACCOUNTINGS.values())
    watts = found.findings.data["watts"]
    assert watts.min() >= 100 and watts.max() <= 400.001
    assert {row.case for row in found.findings.rows} == {bf.FCFS, bf.BF20}
    assert [claim.holds for claim in found.findings.claims] == [True, True]
    lower, mean = "lower end of the range, busy and idle apart", "mean power of the whole run, busy and idle apart"
    assert ours(found, bf.FCFS, lower) < 375
    assert ours(found, bf.BF20, lower) > 390
    assert ours(found, bf.BF20, mean) - ours(found, bf.FCFS, mean) == pytest.approx(14, abs=9)


@pytest.mark.parametrize(("low", "holds"), [((400, 400, 400), False), ((387, 309, 465), None), ((390, 388, 392), True)])
def test_the_verdict_on_the_step_average_is_an_interval_s(low, holds):
    row = Row(bf.FCFS, "lower end of the range, step average", "W", None, Interval(*low))
    assert _flat([row]).holds is holds
