from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measure.small_cluster import small_run

from evenstep.errors import InputError
from evenstep.measure import metrics
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Conditions

ONE = Conditions(2, 3, 6, (2,), (0.5,), 0.25, "saturated", 8, 0, "fcfs")
TWO = Conditions(3, 2, 6, (2, 1), (0.5, 0.25), 0.25, "saturated", 8, 0, "fcfs")


def test_imbalance_is_what_lighter_workers_lack_to_the_envelope():
    loads = np.array([[4.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    top, total, low = loads.max(1), loads.sum(1), loads.min(1)
    assert metrics.imbalance_envelope(top, total, np.array([3.0, 3.0])).tolist() == [4.0, 0.0]
    assert metrics.spread(top, low).tolist() == [3.0, 0.0]


def test_idle_share_is_one_minus_mean_over_maximum():
    top, total, size = np.array([4.0, 2.0, 0.0]), np.array([6.0, 4.0, 0.0]), np.full(3, 2.0)
    assert metrics.idle_share(top, total, size).tolist() == [0.25, 0.0, 0.0]
    assert metrics.idle_share(top, total, size, 4.0).tolist() == [0.125, 0.0, 0.0]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.floats(0, 10))
def test_idle_share_stays_between_0_and_1_and_falls_with_fixed_time(loads, fixed):
    top, total, size = np.array([max(loads)]), np.array([sum(loads)]), np.array([float(len(loads))])
    bare, with_fixed = (metrics.idle_share(top, total, size, f)[0] for f in (0.0, fixed))
    assert -1e-12 <= with_fixed <= bare + 1e-12
    assert bare < 1


def test_the_steady_window_runs_from_the_first_to_the_last_full_step():
    is_full = np.zeros(50, np.bool_)
    is_full[5:15] = True
    is_full[30] = True
    assert metrics.steady_window(is_full) == ("full-slots", 5, 30)


def test_fewer_than_ten_full_steps_count_every_running_step():
    is_full = np.zeros(50, np.bool_)
    is_full[5:14] = True
    assert metrics.steady_window(is_full) == ("running", 0, 49)
    assert metrics.steady_window(np.zeros(0, np.bool_)) == ("running", 0, -1)


def test_a_step_is_full_from_98_percent_of_all_slots():
    steps = small_run([1] * 3, [3, 2, 1], slots=3).steps
    assert metrics.full(steps, 3).tolist() == [True, False, False]
    assert metrics.full(small_run([1] * 49, [1] * 49, slots=50).steps, 50).tolist() == [True]
    assert metrics.full(small_run([1] * 48, [1] * 48, slots=50).steps, 50).tolist() == [False]


def test_times_of_the_two_request_example():
    requests = small_run([3, 5], [4, 1]).requests
    assert metrics.tpot(requests).tolist() == [27 / 4, 9.0]
    assert metrics.ttft(requests).tolist() == [9.0, 9.0]
    assert metrics.end_to_end(requests).tolist() == [27.0, 9.0]
    assert metrics.wait(requests).tolist() == [0.0, 0.0]


def test_times_of_a_request_that_waits_for_a_slot():
    requests = small_run([1, 3, 2], [2, 1, 1], workers=2, slots=1).requests  # steps of 4 s and 3 s
    assert metrics.tpot(requests).tolist() == [3.5, 4.0, 3.0]
    assert metrics.ttft(requests).tolist() == [4.0, 4.0, 7.0]
    assert metrics.end_to_end(requests).tolist() == [7.0, 4.0, 7.0]
    assert metrics.wait(requests).tolist() == [0.0, 0.0, 4.0]


def test_times_of_requests_do_not_depend_on_when_the_clock_began():
    requests = small_run([1, 3, 2], [2, 1, 1], workers=2, slots=1).requests
    names = ("visible_s", "admitted_s", "first_token_s", "finished_s")
    later = replace(requests, **{name: getattr(requests, name) + 64.0 for name in names})
    for time in (metrics.tpot, metrics.ttft, metrics.end_to_end, metrics.wait):
        assert time(later).tolist() == time(requests).tolist()


@pytest.mark.parametrize("unit", [2.0**-20, 1.0, 2.0**20])
def test_shares_and_rates_hold_in_any_unit_of_time(unit):
    """A microsecond or twelve days in place of a second: shares stay, and rates are per that unit."""
    top, total, size = np.array([3.0]), np.array([4.0]), np.array([2.0])
    assert metrics.idle_share(unit * top, unit * total, size).tolist() == [1 - 2 / 3]
    assert metrics.lost_share(2.0 * unit, 8.0 * unit) == 0.25
    assert metrics.goodput(3, 40, 4, 0.5 * unit) == {
        "goodput_requests_per_s": 6.0 / unit,
        "goodput_tokens_per_s": 80.0 / unit,
        "slo_share": 0.75,
    }


def test_a_run_of_no_time_has_no_goodput_and_one_without_requests_no_share():
    assert [math.isnan(value) for value in metrics.goodput(3, 40, 4, 0.0).values()] == [True, True, False]
    assert metrics.known(metrics.goodput(0, 0, 0, 2.0)) == {
        "goodput_requests_per_s": 0.0,
        "goodput_tokens_per_s": 0.0,
        "slo_share": None,
    }


def test_a_request_meets_the_objective_at_its_limits():
    ttft, tpot = np.array([1.0, 1.0, 1.1]), np.array([0.5, 0.6, 0.5])
    assert metrics.meets(Slo(1.0, 0.5), ttft, tpot).tolist() == [True, False, False]
    assert metrics.meets(Slo(tpot_s=0.5), ttft, tpot).tolist() == [True, False, True]


@pytest.mark.parametrize("limits", [{"ttft_s": 0}, {"tpot_s": -1.0}, {"tpot_s": float("nan")}])
def test_an_objective_that_is_not_above_zero_is_refused(limits):
    with pytest.raises(InputError, match=next(iter(limits))):
        Slo(**limits)


def test_full_slot_rate_is_slots_over_the_step_at_the_policy_free_load():
    load = metrics.mean_load(ONE, 20.0, 10)  # B = 3
    assert load == 6.0
    rate = metrics.full_slot_tokens_per_s(ONE, load, np.array([0.25]))
    assert rate == pytest.approx(6 / (0.5 + 0.25 * 6 / 0.75))


def test_full_slot_rate_adds_up_groups():
    rate = metrics.full_slot_tokens_per_s(TWO, 4.0, np.array([0.5, 0.0]))
    assert rate == pytest.approx(4 / (0.5 + 0.25 * 8) + 2 / (0.25 + 1.0))


def test_steps_that_take_no_time_have_no_full_slot_rate():
    assert np.isnan(metrics.full_slot_tokens_per_s(replace(ONE, overhead_s=(0.0,)), 0.0, np.array([0.0])))


def test_a_law_that_is_not_linear_has_no_full_slot_rate_and_no_bound():
    bent = Conditions(2, 3, 6, (2,), (0.5,), float("nan"), "saturated", 8, 0, "fcfs")
    parted = replace(bent, group_sizes=(1, 1))
    assert np.isnan(metrics.full_slot_tokens_per_s(bent, 6.0, np.array([0.0])))
    for conditions in (bent, parted, replace(parted, slots_total=5)):
        assert np.isnan(metrics.policy_free_bound_s(conditions, 20.0, 10, 3))


def test_the_bound_takes_the_longer_of_all_slots_busy_and_the_longest_request():
    assert metrics.policy_free_bound_s(ONE, 20.0, 13, 2) == pytest.approx(0.5 * 3 + 0.25 * 20 / 2)
    assert metrics.policy_free_bound_s(ONE, 20.0, 13, 9) == pytest.approx(0.5 * 9 + 0.25 * 20 / 2)
    assert metrics.policy_free_bound_s(TWO, 30.0, 12, 99) == pytest.approx(0.25 * 99)
    assert metrics.policy_free_bound_s(TWO, 30.0, 12, 1) == pytest.approx(0.25 * 2 + 0.25 * 30 / 3)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=25),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_no_run_beats_the_bound_and_loads_add_up(rows, workers, slots, even):
    prompts, outputs = [r[0] for r in rows], [r[1] for r in rows]
    run = small_run(prompts, outputs, workers=workers, slots=slots, even=even)
    work = sum(o * s + o * (o - 1) // 2 for s, o in rows)
    assert run.totals.load_steps == work
    assert run.totals.active_steps == sum(outputs)
    bound = max(-(-sum(outputs) // (workers * slots)), *outputs) + work / workers
    assert run.summary["policy_free_bound_s"] == pytest.approx(bound)
    assert run.totals.makespan_s >= bound - 1e-9


def test_one_overhead_stands_for_all_groups():
    shared = Conditions(3, 2, 6, (2, 1), (0.5,), 0.25, "saturated", 8, 0, "fcfs")
    assert metrics.group_overheads(shared) == (0.5, 0.5)
    assert metrics.of_group(metrics.group_overheads(TWO), np.array([1, 0, 1])).tolist() == [0.25, 0.5, 0.25]


def test_what_is_lost_at_the_barrier_is_a_share_of_time_and_worth_what_shorter_steps_would_make():
    # two workers of 1 and 3 seconds, and 2 seconds that each step takes whatever the loads
    share = metrics.idle_share(np.array([3.0]), np.array([4.0]), np.array([2.0]), 2.0)
    assert share.tolist() == [pytest.approx(1 - 4 / 5)]
    assert metrics.lost_share(2.0, 10.0) == pytest.approx(share[0])  # the same, counted in worker seconds
    assert math.isnan(metrics.lost_share(0.0, 0.0))
    assert metrics.barrier_worth(80.0, 0.2) == pytest.approx(20.0)  # steps of 4 s in place of 5 s


def test_no_sum_of_steps_and_work_binds_groups_of_unequal_slots():
    """All the work may lie with one group and all the steps with the other: 0.25 * 12 / 4 steps, 0.25 * 30 / 3 of work."""
    uneven = replace(TWO, slots=2, slots_total=4)
    assert metrics.policy_free_bound_s(uneven, 30.0, 12, 1) == pytest.approx(0.25 * 30 / 3)
    assert metrics.policy_free_bound_s(uneven, 3.0, 12, 1) == pytest.approx(0.25 * 12 / 4)
    assert metrics.policy_free_bound_s(uneven, 3.0, 12, 9) == pytest.approx(0.25 * 9)


def test_nan_is_null_in_dicts_and_lists():
    assert metrics.known({"a": math.nan, "b": [1, {"c": math.nan}], "d": math.inf}) == {
        "a": None,
        "b": [1, {"c": None}],
        "d": math.inf,
    }


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "2", None])
def test_an_objective_that_is_no_time_above_0_is_refused(limit):
    with pytest.raises(InputError, match="slo: ttft_s is .* expected seconds above 0"):
        metrics.Slo(ttft_s=limit)
