"""BalanceRoute's open questions at their reduced size."""

from __future__ import annotations

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.papers.balance_route import br_open
from evenstep.experiments.papers.balance_route.br_open import BYPASS, NOISES, PER_WORKER, TIERS, received
from evenstep.experiments.reproduce import Setting
from evenstep.request import Trace


@pytest.mark.slow
def test_five_prefillers_limit_sixteen_workers_and_a_bypass_saves_the_transfer():
    found = quick("br-open", seeds=3)

    def a_worker(case, limited):
        said = "its prefillers" if limited else "ready prompts"
        return ours(found, f"{case}, {br.ORACLE}", f"{PER_WORKER}, {said}")

    assert a_worker("4P1D, G = 8", True) > 0.95 * a_worker("4P1D, G = 8", False)
    assert a_worker("5P1D, G = 16", True) < 0.93 * a_worker("5P1D, G = 16", False)
    latency = "mean latency from the end of prefill, load 0.95"
    waits = [ours(found, case, latency) for case in ("BR-0, bypass", "BR-0, pool, transfer 4 steps")]
    assert waits[0] < waits[1]
    assert len(found.findings.claims) == 5


def test_the_intervals_are_said_to_be_over_as_many_replicates_as_each_part_has(monkeypatch):
    """At full size latencies have 8 times and noise 16 times the replicates of the first part."""
    pair = [1.0, 1.1]
    tiers = {(g, name, limited): pair for g in TIERS for name in (br.JSQ, br.ORACLE) for limited in (False, True)}
    monkeypatch.setattr(br_open, "_served", lambda setting: 1.0)
    monkeypatch.setattr(br_open, "_prefill", lambda setting, served: tiers)
    monkeypatch.setattr(br_open, "_latency", lambda setting, served: {(0.7, 0): pair, (0.7, BYPASS): pair})
    monkeypatch.setattr(br_open, "_noise", lambda setting: {(g, noise): pair for g in TIERS for noise in NOISES})
    assert "over 5 replicates, 40 for latencies and 80 for noise" in br_open.experiment.run(Setting()).intervals
    assert br_open.experiment.run(Setting(seeds=1)).intervals.startswith(
        "One replicate: no intervals but those over 8 for latencies"
    )
    assert not br_open.experiment.run(Setting(quick=True)).intervals


def test_a_request_that_receives_its_kv_holds_a_slot_for_longer():
    trace = Trace(np.array([7, 5]), np.array([3, 1]))
    drift = received(trace, 2)
    assert drift.profiles is not None
    assert drift.profiles.values.tolist() == [7, 7, 7, 8, 9, 5, 5, 5]
    assert drift.profiles.offsets.tolist() == [0, 5, 8]
    assert received(trace, 0).profiles is None
