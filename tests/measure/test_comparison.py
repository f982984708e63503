from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measure.small_cluster import small_run

from evenstep.errors import InputError
from evenstep.measure.comparison import (
    Interval,
    below,
    check_replicates,
    compare_runs,
    mean_interval,
    mean_over,
    outcomes,
    paired_difference,
    quantile_interval,
    share_interval,
    to_json_object,
)
from evenstep.request import Trace
from evenstep.routing.policies.fcfs import FCFS
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Cluster, simulate

CONTRACT = [
    "policy",
    "requests",
    "output_tokens",
    "digest",
    "idle_share",
    "imbalance_envelope_tokens",
    "imbalance_spread_tokens",
    "tokens_per_s",
    "full_slot_tokens_per_s",
    "makespan_s",
    "tpot_mean_s",
    "tpot_p95_s",
    "ttft_p95_s",
    "mean_wait_s",
    "oldest_wait_s",
    "energy_busy_idle_j",
    "energy_step_average_j",
    "versus_first",
    "window",
    "idle_time_share",
]


def replicates(policy: str, seeds: int = 3, **options):
    """Three rotations of one list of lengths, as a recorded trace's replicates are."""
    prompts, outputs = [7, 1, 4, 9, 2, 6, 3, 8, 5, 11], [3, 9, 2, 5, 1, 7, 4, 2, 6, 3]
    runs = []
    for r in range(seeds):
        p, o = prompts[2 * r :] + prompts[: 2 * r], outputs[2 * r :] + outputs[: 2 * r]
        run = small_run(p, o, workers=2, slots=2, policy=policy, **options)
        trace = Trace(np.array(p), np.array(o), name="ten", format="lengths", notes=("One row was dropped.",))
        runs.append(dataclasses.replace(run, conditions=dataclasses.replace(run.conditions, seed=r), trace=trace))
    return runs


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=8, unique=True))
def test_the_interval_is_students_t(values):
    from scipy import stats  # a second, which only this file's worker pays

    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-6, abs=1e-9)


def test_one_replicate_has_no_interval():
    assert mean_interval([3.0]) == Interval(3.0, None, None)
    assert not mean_interval([3.0]).is_clear


def test_an_interval_is_clear_of_0_on_either_side_and_half_as_wide_as_its_ends_are_apart():
    ends = [(1.0, 4.0), (-4.0, -1.0), (-1.0, 4.0), (0.0, 4.0), (-4.0, 0.0)]
    assert [Interval(2.0, low, high).is_clear for low, high in ends] == [True, True, False, False, False]
    assert [Interval(2.0, low, high).half for low, high in ends] == [1.5, 1.5, 2.5, 2.0, 2.0]
    assert mean_interval([3.0]).half is None


def test_an_interval_under_a_falling_function_swaps_its_ends():
    assert Interval(2.0, 1.0, 4.0).map(lambda end: 100 * end) == Interval(200.0, 100.0, 400.0)
    assert Interval(2.0, 1.0, 4.0).map(lambda end: 1 / end) == Interval(0.5, 0.25, 1.0)
    assert Interval(2.0, None, None).map(lambda end: 1 / end) == Interval(0.5, None, None)


def test_one_interval_lies_below_another_or_is_undecided():
    low, high = Interval(1.0, 0.0, 2.0), Interval(4.0, 3.0, 5.0)
    assert below(low, high) is True and below(high, low) is False
    assert below(low, Interval(2.5, 2.0, 3.0)) is None and below(low, None) is None and below(None, low) is None


def test_differences_are_taken_pair_by_pair():
    from scipy import stats

    far = paired_difference([101.0, 12.0, 1003.0], [100.0, 10.0, 1000.0])
    assert far.value == 2.0
    assert far.high - 2.0 == pytest.approx(stats.t.ppf(0.975, 2) / np.sqrt(3))
    assert paired_difference([5.0, 7.0, 5.5], [1.0, 3.0, 1.5]).is_clear


def test_a_pair_that_misses_its_partner_is_a_bug():
    with pytest.raises(ValueError, match="longer"):
        paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])


def test_identical_replicates_are_an_error_not_an_interval():
    run = small_run([3, 5], [4, 1])
    with pytest.raises(InputError, match="fcfs: seeds is 3; expected replicates that differ, and only 1 do"):
        compare_runs([[run, run, run]])
    with pytest.raises(InputError, match="only 2 do"):
        check_replicates("fcfs", ["a", "b", "a"])
    compare_runs([[run]])


def test_policies_that_decide_alike_differ_by_nothing():
    comparison = compare_runs([replicates("fcfs"), replicates("jsq:ties=lowest")])
    second = comparison.policies[1]
    assert second.digest == comparison.policies[0].digest
    assert second.versus_first["makespan_s"] == Interval(0.0, 0.0, 0.0)


def test_the_json_object_keeps_the_contract():
    comparison = compare_runs([replicates("fcfs"), replicates("even", even=True)])
    found = json.loads(json.dumps(to_json_object(comparison), allow_nan=False))
    assert [p["policy"] for p in found["policies"]] == ["fcfs", "even"]
    for policy in found["policies"]:
        assert set(CONTRACT) <= set(policy)
    first, second = found["policies"]
    assert first["versus_first"] is None
    assert "versus" not in second
    for name in ("idle_share", "makespan_s", "tpot_p95_s", "energy_busy_idle_j", "oldest_wait_s"):
        difference = second["versus_first"][name]
        assert difference["diff"] == pytest.approx(second[name] - first[name])
        assert difference["low"] < difference["diff"] < difference["high"]
    assert "requests" not in second["versus_first"]
    assert first["requests"] == 10
    assert isinstance(first["requests"], int)
    assert (found["seeds"], found["replicates"], found["baseline"]) == ([0, 1, 2], "rotated", "fcfs")
    assert found["trace"]["name"] == "ten"
    assert found["notes"] == ["One row was dropped."]
    assert [r["seed"] for r in first["per_seed"]] == [0, 1, 2]
    assert first["makespan_s"] == pytest.approx(np.mean([r["makespan_s"] for r in first["per_seed"]]))
    assert found["yardsticks"]["policy_free_bound_s"] <= first["makespan_s"]
    assert found["yardsticks"]["even_full_slot_tokens_per_s"] >= first["full_slot_tokens_per_s"]


def test_the_rate_that_none_can_pass_knows_tokens_of_one_step():
    """Three tokens a step (speculative decoding) are three times the rate of full slots."""
    trace = Trace(np.arange(10, 410), np.full(400, 30))
    fleet = Cluster(workers=4, slots=8, drift=Drift(growth=3, tokens_per_step=3))
    found = compare_runs([[simulate(trace, FCFS(), cluster=fleet)]])
    own = found.policies[0].mean("full_slot_tokens_per_s")
    assert own <= found.yardsticks["even_full_slot_tokens_per_s"] < 1.2 * own


def test_with_one_seed_ends_are_null_and_the_digest_is_the_runs_own():
    runs = replicates("fcfs", 1), replicates("even", 1, even=True)
    found = to_json_object(compare_runs(runs))
    difference = found["policies"][1]["versus_first"]["makespan_s"]
    assert (difference["low"], difference["high"]) == (None, None)
    assert found["policies"][1]["digest"] == runs[1][0].digest
    assert found["replicates"] == "one"


def test_another_baseline_is_compared_beside_the_first():
    runs = replicates("fcfs"), replicates("even", even=True), replicates("fcfs again")
    found = to_json_object(compare_runs(runs, baseline=1))
    first, second, third = found["policies"]
    assert found["baseline"] == "even"
    assert "versus" not in second
    assert first["versus"]["makespan_s"]["diff"] == pytest.approx(first["makespan_s"] - second["makespan_s"])
    assert third["versus"]["makespan_s"] == first["versus"]["makespan_s"]
    assert third["versus_first"]["makespan_s"]["diff"] == 0


def test_a_result_is_found_by_its_policy_and_differs_from_the_baseline():
    runs = replicates("fcfs"), replicates("even", even=True), replicates("fcfs again")
    found = compare_runs(runs, baseline=1)
    for policy in ("fcfs", "even", "fcfs again"):
        assert policy in found and found[policy].policy == policy
    assert "jsq" not in found
    with pytest.raises(InputError, match="policy is 'evens'; expected one of the policies compared. Did you mean even"):
        found["evens"]
    assert found.differences(found["fcfs"]) is found["fcfs"].versus
    assert found.differences(found["even"]) == {}
    first = compare_runs(runs)
    assert first.differences(first["even"]) is first["even"].versus_first and first.differences(first["fcfs"]) == {}
    assert not found["fcfs"].oracle and found["fcfs"].reachable_live


def test_drawn_replicates_are_called_so():
    runs = replicates("fcfs")
    synthetic = [dataclasses.replace(r, trace=dataclasses.replace(r.trace, synthetic=True)) for r in runs]
    assert compare_runs([synthetic]).replicates == "drawn anew"
    assert compare_runs([[dataclasses.replace(r, trace=None) for r in runs]]).replicates == ""


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("steps", [1, 3], 2),
        ("steps", [1, 2], 1.5),
        ("idle_share", [0.5, None], None),
        ("overloaded", [True, False], False),
        (
            "window",
            [{"kind": "running", "steps": 3}, {"kind": "running", "steps": 4}],
            {"kind": "running", "steps": 3},
        ),
        ("window", [{"kind": "running"}, {"kind": "full-slots"}], {"kind": "mixed"}),
        ("waits_by_prompt_fifth", [[1], [2]], [1]),
        ("counted", [{"evictions": 1}, {"evictions": 3, "wakes": 4}], {"evictions": 2, "wakes": 2}),
    ],
)
def test_fields_are_joined_over_replicates_by_their_kind(name, values, expected):
    joined = mean_over(name, values)
    assert joined == expected
    assert type(joined) is type(expected)


def test_what_the_workload_fixes_is_no_outcome():
    names = outcomes(small_run([3, 5], [4, 1]).summary)
    assert "makespan_s" in names
    assert not {"requests", "policy_free_bound_s", "overloaded", "window"} & set(names)


def test_a_field_missing_in_one_replicate_has_no_interval():
    (result,) = compare_runs([replicates("fcfs")]).policies
    holed = dataclasses.replace(result, summaries=(*result.summaries[:2], {**result.summaries[2], "idle_share": None}))
    assert holed.interval("idle_share") is None
    assert holed.interval("makespan_s") == mean_interval(result.values("makespan_s"))


def test_shares_have_the_interval_of_clopper_and_pearson():
    none, half, every = share_interval(0, 400), share_interval(5, 10), share_interval(10, 10)
    assert (half.value, every.value) == (0.5, 1.0)
    assert (none.value, none.low) == (0.0, 0.0) and none.high == pytest.approx(1 - 0.025 ** (1 / 400))
    assert (half.low, half.high) == pytest.approx((0.1871, 0.8129), abs=5e-5)
    assert (every.low, every.high) == pytest.approx((0.025**0.1, 1.0))


def test_a_quantile_lies_between_order_statistics():
    """The 40th and the 61st of 100 values hold their median, as tables say."""
    found = quantile_interval(np.arange(100.0, 0.0, -1.0), 0.5)
    assert (found.value, found.low, found.high) == (50.5, 40.0, 61.0)
    assert quantile_interval(np.arange(10.0), 0.9).high is None
