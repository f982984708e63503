"""What `best` is held to, by the fair measure, on the workloads of the leaderboard: no change may lose it unseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.bench_scheduling import MEAN, OURS, TAIL, TODAY, WORKLOADS, memory_binds
from benchmarks.best_workloads import DEVELOP

from evenstep import Trace, simulate
from evenstep.experiments.compare.compare import compare
from evenstep.experiments.compare.engine_compare import run_engine_comparison
from evenstep.experiments.compare.engine_settings import EngineSettings
from evenstep.experiments.contenders import contender
from evenstep.experiments.leaderboard.file import read_board
from evenstep.measure.comparison import mean_interval

BOARD = Path(__file__).parents[2] / "examples" / "leaderboard.yaml"
SEEDS = 3
IMBALANCE = "imbalance_envelope_tokens"


def found(workload, *policies, seeds=SEEDS):
    """Each policy on a workload of the board, which names the predictor that a live router has there."""
    (entry,) = [one for one in read_board(BOARD)[1] if one.name == workload]
    settings = entry.settings
    return compare(
        settings.source,
        [policy.replace("live", entry.line.predictor) for policy in policies],
        cluster=settings.cluster(),
        step_time=settings.step_time(),
        limit=settings.limit,
        load=settings.load,
        seeds=seeds,
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


#: Replicates that bring half a 95 % interval of best against least load below 3 %, by load.
ENOUGH = {0.3: 16, 0.6: 32, 0.95: 80}


@pytest.mark.slow
@pytest.mark.parametrize("load", ENOUGH)
def test_below_saturation_best_is_at_least_level_with_least_load(load):
    """Of its imbalance, as a share of the other's in the same replicate: level is a 95 % interval above -2 %, half of it below 3 %."""
    best, other = found(f"burst at {load}", "best:predictor=live", "least-load", seeds=ENOUGH[load])
    pairs = zip(best.summaries, other.summaries, strict=True)
    less = mean_interval([1.0 - ours[IMBALANCE] / theirs[IMBALANCE] for ours, theirs in pairs])
    assert less.low > -0.02
    assert (less.high - less.low) / 2 < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("load", ENOUGH)
def test_below_saturation_best_is_clearly_better_balanced_than_br_0(load):
    (_, other) = found(f"burst at {load}", "best:predictor=live", "br-0", seeds=16)
    assert other.versus_first[IMBALANCE].low > 0.1 * other.mean(IMBALANCE)


@pytest.mark.slow
@pytest.mark.parametrize("age_limit", [0, 18])
def test_on_prompts_of_100_and_60_000_best_is_level_with_its_siblings_under_the_same_bound_on_age(age_limit):
    (workload,) = [one for one in DEVELOP if one.name == "prompts 100 or 60,000"]
    whole = workload.trace()
    orders = [np.random.default_rng([7, number]).permutation(len(whole)) for number in range(1, 8)]
    traces = [whole, *(Trace(whole.prompt_tokens[o], whole.output_tokens[o], name=whole.name) for o in orders)]

    def idle(policy):
        built, predictor = contender(f"{policy},age_limit={age_limit}").build()
        runs = [simulate(one, built, cluster=workload.cluster(), predictor=predictor, records=False) for one in traces]
        return sum(run.summary["idle_share"] for run in runs)

    best = idle("best:predictor=survival")
    for other in ("bf-io:tie_weight=1", "br-0:reward=1"):
        assert best < 1.02 * idle(other)


#: What engines do today and what orders by size or service: none may beat `best` in mean and tail at once.
OTHER_SCHEDULERS = ("vllm:watermark=0.05", "vanilla-vllm", "sjf", "srpt", "mlfq", "least-attained", "a-min")


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "most"), [("conversation", 0.5), ("burstgpt", 0.6), ("translation", 0.7)])
def test_where_memory_binds_best_is_far_below_vllm_and_nobody_is_better_in_mean_and_tail(workload, most):
    """Promised are 25 % in the mean; found were 60, 52 and 37 % (`benchmarks/bench_scheduling.py --loads 1.1 --limit 500`)."""
    assert memory_binds(workload, 1.1, SEEDS, 500) > 0.5
    trace, engine, law, bounds = WORKLOADS[workload]
    asked = [OURS, TODAY, *OTHER_SCHEDULERS]
    settings = EngineSettings(trace, asked, engine=engine, batch_time=law, bounds=bounds, load=1.1, limit=500, seeds=SEEDS)
    ours, today, *others = run_engine_comparison(settings)[0].policies
    assert ours.mean(MEAN) < most * today.mean(MEAN)
    for other in (today, *others):
        assert ours.mean(MEAN) < other.mean(MEAN) or ours.mean(TAIL) < other.mean(TAIL), other.policy
    assert ours.mean(TAIL) < 0.75 * today.mean(TAIL)
