"""Idle shares of an independent simulation, which ours has to reproduce: eight bands and one order.

Chat-like lengths, 16 workers of 72 slots, a pool of 128, saturated, 12,000 requests, policies as their papers have them.
Each band is the idle share in percent while slots are full, and is that of the other simulation over its own seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.experiments.compare.compare import compare
from evenstep.experiments.settings import CompareSettings

pytestmark = pytest.mark.slow
BURST = Path(__file__).parents[2] / "examples" / "workloads" / "burst.yaml"
SEEDS = 3
MAX_MIN, BR_0, BF_IO = "max-min:age_limit=0", "br-0:age_limit=0", "bf-io:age_limit=0"
BF_IO_10, BF_IO_20 = (f"bf-io:horizon={h},age_limit=0,predictor=oracle" for h in (10, 20))
BF_IO_DISCOUNTED = "bf-io:horizon=20,discount=0.9,age_limit=0,predictor=oracle"
BR_H = "br-h:horizon=40,age_limit=0,predictor=oracle"
BANDS = {
    "fcfs": (13, 20),
    "jsq": (13, 20),
    "least-load": (13, 20),
    MAX_MIN: (4.2, 5.4),
    BR_0: (2.8, 3.7),
    BF_IO: (2.4, 2.9),
    BF_IO_10: (1.1, 1.7),
    BF_IO_20: (1.3, 1.7),
    BR_H: (0.8, 1.1),
    BF_IO_DISCOUNTED: (0.6, 0.9),
}
#: From the most to the least idle.
ORDER = ("fcfs", MAX_MIN, BR_0, BF_IO, BF_IO_20, BF_IO_DISCOUNTED)


@pytest.fixture(scope="module")
def idle_percent() -> dict[str, list[float]]:
    """By policy, one figure a replicate."""
    settings = CompareSettings(source=str(BURST), workers=16, slots=72, pool=128, seeds=SEEDS)
    found = compare(
        settings.source, list(BANDS), cluster=settings.cluster(), step_time=settings.step_time(), seeds=SEEDS
    ).policies
    assert [one.policy for one in found] == list(BANDS)
    for run in (run for one in found for run in one.summaries):
        assert run["requests"] == 12_000 and run["window"]["kind"] == "full-slots"
    return {one.policy: [100 * run["idle_share"] for run in one.summaries] for one in found}


@pytest.mark.parametrize("policy", BANDS)
def test_the_idle_share_lies_in_the_band_of_the_other_simulation(idle_percent, policy):
    low, high = BANDS[policy]
    assert low < sum(idle_percent[policy]) / SEEDS < high


def test_in_every_replicate_each_policy_of_the_order_leaves_less_idle_than_the_one_before(idle_percent):
    for replicate in zip(*(idle_percent[policy] for policy in ORDER), strict=True):
        assert list(replicate) == sorted(replicate, reverse=True) and len(set(replicate)) == len(ORDER)
