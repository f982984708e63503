"""BF-IO Fig. 6 at its reduced size."""

from __future__ import annotations

import numpy as np
from tests.experiments.papers.quick import interval, lies_within, ours, quick

from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.experiments.vocabulary import below

SPREAD, LOW, HIGH = "heaviest minus lightest worker, mean", "lowest load", "highest load"


def test_loads_of_every_worker_are_in_the_data_and_bands_nest():
    found = quick("bfio-fig6", seeds=12)
    data = found.findings.data
    assert set(data["case"]) == set(bf.POLICIES)
    assert set(np.unique(data["worker"])) == set(range(4))
    for wide in (bf.FCFS, bf.JSQ):
        for narrow in (bf.BF0, bf.BF20):
            assert below(interval(found, wide, LOW), interval(found, narrow, LOW))
            assert below(interval(found, narrow, HIGH), interval(found, wide, HIGH))
    assert ours(found, bf.BF0, LOW) < ours(found, bf.BF20, LOW)
    assert ours(found, bf.BF20, HIGH) < ours(found, bf.BF0, HIGH)
    for policy, low, high in ((bf.FCFS, 7.8, 12), (bf.JSQ, 7.8, 12), (bf.BF0, 1.7, 3), (bf.BF20, 0.8, 1.5)):
        lies_within(found, policy, SPREAD, low, high)
    lies_within(found, bf.FCFS, LOW, 11, 15.5)
    lies_within(found, bf.FCFS, HIGH, 33.5, 42.5)
    assert [claim.holds for claim in found.findings.claims[:2]] == [True, True]
