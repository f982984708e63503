"""BF-IO Table 1 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.experiments.papers.bf_io.bfio_table1 import IMBALANCE


def test_the_papers_numbers_stand_beside_ours_and_lookahead_balances_best():
    found = quick("bfio-table1")
    rows = [r for r in found.findings.rows if r.quantity == "average imbalance"]
    assert {r.case: r.paper for r in rows} == IMBALANCE
    assert ours(found, bf.BF20, "average imbalance") < ours(found, bf.FCFS, "average imbalance")
    share = ours(found, bf.BF20, "energy over FCFS, busy and idle apart")
    kj = [ours(found, p, "energy, busy and idle apart") for p in (bf.BF20, bf.FCFS)]
    assert abs(share - 100 * kj[0] / kj[1]) < 1.0


@pytest.mark.slow
def test_a_trace_of_the_users_takes_the_place_of_the_workload():
    found = quick("bfio-table1", seeds=1, traces=("sample:sharegpt",))
    assert found.findings.stands_in.startswith("sample:sharegpt")
    assert found.findings.rows[0].ours.low is None
    assert not {"workload", "requests"} & {c.name for c in found.findings.constants}
