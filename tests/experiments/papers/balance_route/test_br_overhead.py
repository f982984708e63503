"""BalanceRoute's overhead of a decision at its reduced size."""

from __future__ import annotations

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route.br_overhead import STAGES, _claims


@pytest.mark.slow
def test_every_stage_has_a_time_for_every_decision():
    found = quick("br-overhead")
    data = found.findings.data
    assert tuple(data["stage"][: len(STAGES)]) == STAGES
    assert len(data["seconds"]) % len(STAGES) == 0
    seconds = data["seconds"].reshape(-1, len(STAGES))
    assert (seconds >= 0).all()
    assert (seconds.mean(axis=0) > 0).all()
    for place, stage in enumerate(STAGES):
        assert ours(found, "G = 4", f"{stage}, mean") == pytest.approx(1e6 * seconds[:, place].mean(), rel=0.05)


def test_verdicts_follow_the_intervals_of_the_times():
    """Two replicates of two decisions, seconds: projection, preparation, stage 1, stage 2, check."""

    def verdicts(second_stage, step_s):
        taken = [np.array([[1.0, 1.0, 1.0, own, 9.0]] * 2) for own in second_stage]
        return [claim.holds for claim in _claims(8, taken, step_s)]

    assert verdicts((6.0, 6.1), 20.0) == [True, True]
    assert verdicts((6.0, 6.1), 17.0) == [False, True]
    assert verdicts((1.0, 1.01), 20.0) == [True, False]
    assert verdicts((1.0, 9.0), 20.0) == [None, None]
