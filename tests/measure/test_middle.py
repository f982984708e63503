"""The metrics of the middle of a run."""

from dataclasses import replace

import numpy as np
import pytest

from evenstep.cost.linear import Linear
from evenstep.experiments.lengths import alike
from evenstep.measure.metrics import Slo
from evenstep.measure.middle import middle
from evenstep.routing.policies.jsq import JSQ
from evenstep.sim.cluster.simulation import Cluster, simulate

LAW = Linear(overhead_s=1.0, per_token_s=0.01)


def run_of(requests, arrivals, gap_s=None, **fleet):
    trace = alike(10, 5).draw(requests, 0, 0)
    if gap_s is not None:
        trace = replace(trace, arrival_s=gap_s * np.arange(requests))
    return simulate(trace, JSQ(), cluster=Cluster(arrivals=arrivals, **fleet), step_time=LAW)


def test_it_has_the_requests_from_a_quarter_to_nine_tenths_of_all():
    run = run_of(100, "timed", 10.0, workers=1, slots=2)  # each is alone: 5 steps of 1.1 to 1.14 s
    found = middle(run, Slo(tpot_s=1.13))
    assert found["requests"] == 65
    assert found["output_tokens"] == 65 * 5
    assert found["makespan_s"] == pytest.approx(650.0)
    assert found["slo_share"] == 1.0
    assert found["tpot_p95_s"] == pytest.approx(1.12)


def test_a_queue_that_grows_shows_in_the_middle_and_not_in_the_beginning():
    run = run_of(100, "timed", 1.0, workers=1, slots=2)  # twice the capacity: the first requests wait less than 20 s
    early = np.mean(run.requests.first_token_s - run.requests.visible_s <= 20.0)
    assert early >= 0.1
    assert middle(run, Slo(ttft_s=20.0))["slo_share"] == 0.0


def test_energy_of_an_idle_fleet_counts_as_long_as_the_middle_lasts():
    run = run_of(100, "timed", 100.0, workers=1, slots=2)
    found = middle(run)
    steps = run.steps.energy_busy_idle_j[25 * 5 : 90 * 5].sum()
    idle_s = 6500.0 - 65 * 5 * 1.12
    assert found["energy_busy_idle_j"] == pytest.approx(steps + 100.0 * idle_s)


def test_a_full_pool_under_memory_that_never_lets_all_slots_run_leaves_the_drain_out():
    """Memory for two of four: 24 tokens in steps of 1.24 s on average, once the fleet is full."""
    run = run_of(400, "saturated", workers=1, slots=4, kv_tokens=28.0, pool=8)
    assert run.summary["window"]["kind"] == "running"
    found = middle(run)
    assert found["window_tokens_per_s"] == pytest.approx(2 / 1.24, rel=0.01)
