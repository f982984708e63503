"""BF-IO's open question on instant dispatch at its reduced size."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.experiments.papers.quick import lies_within, quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.experiments.papers.bf_io.bfio_instant import _claim


@pytest.mark.slow
def test_every_depth_is_run_and_the_gain_of_the_pool_is_gone_without_it():
    found = quick("bfio-instant", seeds=12)
    gain = "imbalance of FCFS over it"
    lies_within(found, f"{bf.BF0}, pool", gain, 2.9, 4.7)
    lies_within(found, f"{bf.BF20}, pool", gain, 4.7, 7.6)
    for policy in (bf.BF0, bf.BF20):
        for depth in ("0 B", "2 B"):
            lies_within(found, f"{policy}, {depth}", gain, 0.8, 1.25)
    for depth in ("pool", "0 B", "2 B"):
        lies_within(found, f"{bf.FCFS}, {depth}", "average imbalance", 1.1, 1.7)
    assert set(found.findings.data["depth"]) == {"pool", "0 B", "2 B"}
    assert [claim.holds for claim in found.findings.claims] == [True, True]


@pytest.mark.parametrize(
    ("pooled", "queued", "holds"),
    [([4.0, 4.1, 4.2], [1.0, 1.1, 1.2], True), ([4.0, 6.0, 8.0], [3.0, 5.0, 7.0], None), ([4.0], [1.0], None)],
)
def test_gains_whose_intervals_overlap_settle_nothing(pooled, queued, holds):
    def runs(gains):
        return {
            policy: [SimpleNamespace(summary={bf.IMBALANCE: one}) for one in own]
            for policy, own in ((bf.FCFS, gains), (bf.BF0, [1.0] * len(gains)))
        }

    assert _claim({None: runs(pooled), 4.0: runs(queued)}, bf.BF0).holds is holds
