"""What `best` is held to, by the fair measure, on the workloads of the leaderboard: no change may lose it unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.experiments.compare.compare import compare
from evenstep.experiments.leaderboard.file import read_board

BOARD = Path(__file__).parents[2] / "examples" / "leaderboard.yaml"
SEEDS = 3


def found(workload, *policies):
    """Each policy on a workload of the board, which names the predictor that a live router has there."""
    (entry,) = [one for one in read_board(BOARD)[1] if one.name == workload]
    settings = entry.settings
    return compare(
        settings.source,
        [policy.replace("live", entry.predictor) for policy in policies],
        cluster=settings.cluster(),
        step_time=settings.step_time(),
        limit=settings.limit,
        load=settings.load,
        seeds=SEEDS,
    ).policies


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "most_idle"), [("burst", 0.016), ("recurring", 0.0075), ("heavy", 0.072), ("near-cap", 0.10)]
)
def test_best_leaves_no_more_idle_and_nobody_waits_too_long(workload, most_idle):
    (best,) = found(workload, "best:predictor=live")
    assert not best.oracle
    assert best.mean("idle_share") < most_idle
    for run in best.summaries:
        assert run["oldest_wait_s"] < 20 * run["mean_wait_s"]


@pytest.mark.slow
def test_on_heavy_prompts_best_leaves_less_idle_than_br_0_with_and_without_its_bound_on_ageing():
    best, *others = found("heavy", "best:predictor=live", "br-0", "br-0:age_limit=0")
    for other in others:
        assert best.mean("idle_share") < other.mean("idle_share")


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.85, 0.95])
def test_below_saturation_best_is_at_least_level_with_least_load_and_br_0(load):
    """Level: its imbalance against theirs, pair by pair, is at most +2 %, and half the 95 % interval is below 2 %, too."""
    name = "imbalance_envelope_tokens"
    _, *others = found(f"burst at {load}", "best:predictor=live", "least-load", "br-0")
    for other in others:
        saved = other.versus_first[name]
        assert -saved.value < 0.02 * other.mean(name), other.policy
        assert saved.high - saved.low < 2 * 0.02 * other.mean(name), other.policy
