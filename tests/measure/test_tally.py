from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measure.small_cluster import small_run
from tests.strategies import cut, recorded_tables

from evenstep.cost.power import Power
from evenstep.measure import metrics
from evenstep.measure import tally as tallies
from evenstep.measure.metrics import Slo
from evenstep.measure.records import columns
from evenstep.measure.tally import Tally


def tallied(tables: Any, exact: bool = True, slo: Slo | None = None, cuts: Any = None) -> dict[str, Any]:
    conditions, steps, requests, totals = tables
    tally = Tally(conditions, exact=exact, slo=slo)
    for part in cut(cuts, steps) if cuts else [steps]:
        tally.add_steps(part)
    for part in cut(cuts, requests) if cuts else [requests]:
        tally.add_requests(part)
    return tally.summary(totals)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for name, item in value.items() for k, v in flat(item, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {k: v for i, item in enumerate(value) for k, v in flat(item, f"{path}.{i}").items()}
    return {path: value}


def test_the_two_request_example_by_hand():
    run = small_run([3, 5], [4, 1])
    s = run.summary
    assert run.steps.envelope.tolist() == [8, 4, 5, 6]
    assert (s["requests"], s["output_tokens"], s["steps"], s["makespan_s"]) == (2, 5, 4, 27.0)
    assert s["window"] == {
        "kind": "running",
        "first_step": 0,
        "last_step": 3,
        "steps": 4,
        "steps_with_all_slots_busy": 1,
    }
    assert s["idle_share"] == s["idle_time_share"] == s["imbalance_envelope_tokens"] == 0.0
    assert s["tokens_per_s"] == s["window_tokens_per_s"] == pytest.approx(5 / 27)
    assert s["mean_load_tokens"] == pytest.approx(2 * 23 / 5)
    assert s["full_slot_tokens_per_s"] == pytest.approx(2 / (1 + 2 * 23 / 5))
    assert s["policy_free_bound_s"] == 27.0
    assert s["tpot_mean_s"] == pytest.approx((27 / 4 + 9) / 2)
    assert s["tpot_p50_s"] == pytest.approx((27 / 4 + 9) / 2)
    assert s["ttft_p95_s"] == 9.0
    assert s["e2e_mean_s"] == 18.0
    assert s["mean_wait_s"] == s["oldest_wait_s"] == s["p99_wait_s"] == 0.0
    assert not s["overloaded"]


def test_two_workers_by_hand():
    run = small_run([1, 3, 2], [2, 1, 1], workers=2, slots=1)  # loads (1, 3), (2, 2)
    s = run.summary
    assert run.steps.load_sum.tolist() == [4, 4]
    assert s["idle_share"] == pytest.approx((1 - 2 / 3) / 2)
    assert s["idle_time_share"] == pytest.approx((1 - 3 / 4) / 2)
    assert s["imbalance_envelope_tokens"] == s["imbalance_spread_tokens"] == 1.0
    assert s["makespan_s"] == 7.0
    assert s["oldest_wait_s"] == 4.0
    assert s["mean_wait_s"] == pytest.approx(4 / 3)
    assert s["overloaded"]


def test_the_window_leaves_out_the_drain():
    prompts = [5, 2] * 12 + [9]
    run = small_run(prompts, [1] * 24 + [30], workers=2, slots=1)
    assert run.steps.rows == 42
    window = run.summary["window"]
    assert (window["kind"], window["first_step"], window["last_step"], window["steps"]) == (
        "full-slots",
        0,
        11,
        12,
    )
    assert run.summary["idle_share"] == pytest.approx(0.3)
    assert run.summary["window_tokens_per_s"] == pytest.approx(2 / 6)


@given(st.data(), recorded_tables(), st.booleans())
def test_chunks_give_what_whole_tables_give(data, tables, exact):
    slo = Slo(ttft_s=3.0, tpot_s=0.6)
    whole, parts = flat(tallied(tables, exact, slo)), flat(tallied(tables, exact, slo, data))
    assert parts.keys() == whole.keys()
    for name, value in whole.items():
        expected = pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        assert parts[name] == expected, name


@given(recorded_tables())
def test_the_summary_is_what_the_metrics_say_of_the_tables(tables):
    conditions, steps, requests, totals = tables
    s = tallied(tables)
    kind, first, last = metrics.steady_window(metrics.full(steps, conditions.slots_total))
    window = slice(first, last + 1)
    size = np.array(conditions.group_sizes, float)[steps.group]
    idle = metrics.idle_share(steps.envelope, steps.load_sum, size)[window]
    assert (s["window"]["kind"], s["window"]["first_step"], s["window"]["last_step"]) == (kind, first, last)
    assert s["idle_share"] == pytest.approx(idle.mean())
    assert s["imbalance_spread_tokens"] == pytest.approx((steps.envelope - steps.load_min)[window].mean())
    assert s["tpot_p95_s"] == pytest.approx(np.percentile(metrics.tpot(requests), 95))
    assert s["p99_wait_s"] == pytest.approx(np.percentile(metrics.wait(requests), 99))
    assert s["e2e_p99_s"] == pytest.approx(np.percentile(metrics.end_to_end(requests), 99))
    assert s["tokens_per_s"] == pytest.approx(totals.output_tokens / totals.makespan_s)
    if len(conditions.group_sizes) == 1:
        load = conditions.slots * totals.load_steps / totals.active_steps
        tokens = conditions.slots_total * totals.output_tokens / totals.active_steps
        assert s["full_slot_tokens_per_s"] == pytest.approx(tokens / (1 + 0.125 * load / (1 - idle.mean())))


@given(recorded_tables())
def test_without_exact_values_quantiles_are_within_a_tenth_of_a_percent(tables):
    exact, close = tallied(tables, True), tallied(tables, False)
    for name in ("tpot_p50_s", "ttft_p95_s", "e2e_p99_s", "p99_wait_s"):
        assert close[name] == pytest.approx(exact[name], rel=1e-3)
    for name in ("tpot_mean_s", "oldest_wait_s", "idle_share"):
        assert close[name] == exact[name]


def test_waiting_groups_draw_idle_power():
    run = small_run([3, 5], [4, 1], workers=2)
    longer = dataclasses.replace(run.totals, makespan_s=run.totals.makespan_s + 10)
    tally = Tally(run.conditions, power=Power(idle_w=50.0))
    tally.add_steps(run.steps)
    s = tally.summary(longer)
    assert s["energy_busy_idle_j"] == pytest.approx(run.steps.energy_busy_idle_j.sum() + 1000.0)
    assert s["energy_step_average_j"] == pytest.approx(run.steps.energy_step_average_j.sum() + 1000.0)
    assert s["power_busy_idle_w"] == pytest.approx(s["energy_busy_idle_j"] / (2 * longer.makespan_s))


def test_one_worker_costs_the_same_under_both_accountings():
    s = small_run([3, 5, 2], [4, 1, 3]).summary
    assert s["energy_busy_idle_j"] == pytest.approx(s["energy_step_average_j"])


def test_goodput_counts_requests_within_the_objective():
    run = small_run([3, 5], [4, 1])
    tally = Tally(run.conditions, slo=Slo(tpot_s=7.0))
    tally.add_steps(run.steps)
    tally.add_requests(run.requests)
    s = tally.summary(run.totals)
    assert s["goodput_requests_per_s"] == pytest.approx(1 / 27)
    assert s["goodput_tokens_per_s"] == pytest.approx(4 / 27)
    assert s["slo_share"] == 0.5
    assert "slo_share" not in run.summary


def test_idle_share_of_a_bent_law_is_of_local_time():
    run = small_run([1, 3, 2], [2, 1, 1], workers=2, slots=1)
    steps = dataclasses.replace(run.steps, local_sum_s=run.steps.local_max_s * 2.0)
    bent = dataclasses.replace(run.conditions, seconds_per_token=math.nan)
    tally = Tally(bent)
    tally.add_steps(steps)
    s = tally.summary(run.totals)
    assert s["idle_share"] == 0.0
    assert s["full_slot_tokens_per_s"] is None
    assert s["policy_free_bound_s"] is None


def test_a_run_of_nothing_has_no_values_and_is_still_json():
    run = small_run([1], [1])
    nothing = dataclasses.replace(
        run.totals,
        requests=0,
        output_tokens=0,
        steps=0,
        makespan_s=0.0,
        load_steps=0.0,
        active_steps=0,
    )
    for exact in (True, False):
        s = Tally(run.conditions, exact=exact).summary(nothing)
        assert s["idle_share"] is None
        assert s["tpot_p95_s"] is None
        assert s["window"]["steps"] == 0
        json.dumps(s, allow_nan=False)


def test_the_hosts_other_counts_are_in_the_summary():
    run = small_run([1], [1])
    totals = dataclasses.replace(run.totals, counted={"predictor_fallbacks": 3})
    assert Tally(run.conditions).summary(totals)["predictor_fallbacks"] == 3


def test_the_headline_is_worth_the_tokens_that_even_loads_would_add():
    run = small_run([5, 2, 9, 4] * 6, [3, 1, 2, 4] * 6, workers=2, slots=2)
    share, rate = run.summary["idle_time_share"], run.summary["window_tokens_per_s"]
    assert run.summary["barrier_tokens_per_s"] == pytest.approx(rate * share / (1 - share))
    assert share > 0


def test_the_bound_without_a_policy_has_the_longest_request_that_never_restarted():
    """A restarted request spans steps in which it did not run: here 100 of them, and the longest other one has 7."""
    run = small_run([1, 1, 1], [5, 7, 3], slots=3)
    began, ended = np.array([3, 2, 0]), np.array([7, 8, 99])
    requests = dataclasses.replace(run.requests, admitted_step=began, finished_step=ended, restarts=np.array([0, 0, 1]))
    few = dataclasses.replace(run.totals, load_steps=0.0, active_steps=0)
    for parts in ([0, 1, 2], [1, 2, 0]):  # the longest one comes first or last
        tally = Tally(run.conditions)
        for i in parts:
            tally.add_requests(type(requests)(**{k: v[i : i + 1] for k, v in columns(requests).items()}))
        assert tally.summary(few)["policy_free_bound_s"] == 7.0
    tally = Tally(run.conditions)
    tally.add_requests(dataclasses.replace(requests, restarts=np.ones(3, np.int64)))
    assert tally.summary(few)["policy_free_bound_s"] == 0.0


def test_the_share_of_prefix_hits_is_of_the_prompt_tokens_that_were_looked_up():
    run = small_run([1], [1])
    for looked_up, share in ((8, 0.25), (1, 2.0), (0, 2.0)):
        counted = {"prefix_hit_tokens": 2, "prefix_prompt_tokens": looked_up}
        totals = dataclasses.replace(run.totals, counted=counted)
        assert Tally(run.conditions).summary(totals)["prefix_hit_share"] == share


def test_classes_have_rows_where_there_are_two():
    run = small_run([3, 5], [4, 1])
    for classes, is_shown in (([1, 1], False), ([1, 2], True)):
        tally = Tally(run.conditions)
        tally.add_requests(dataclasses.replace(run.requests, request_class=np.array(classes)))
        assert ("by_class" in tally.summary(run.totals)) is is_shown


def test_a_run_of_half_a_second_has_a_rate_and_a_power():
    run = small_run([3], [1], overhead_s=0.2, per_token_s=0.1)
    assert run.summary["makespan_s"] == pytest.approx(0.5)
    assert run.summary["tokens_per_s"] == pytest.approx(2.0)
    assert run.summary["power_busy_idle_w"] == pytest.approx(run.steps.energy_busy_idle_j.sum() / 0.5)
    nothing = dataclasses.replace(run.totals, makespan_s=0.0)
    s = Tally(run.conditions).summary(nothing)
    assert s["tokens_per_s"] is None and s["power_busy_idle_w"] is None


def test_a_fleet_that_always_works_draws_no_idle_power_besides():
    run = small_run([3, 5], [4, 1])
    assert run.summary["energy_busy_idle_j"] == pytest.approx(run.steps.energy_busy_idle_j.sum())


def two_groups(full: list[int]) -> Any:
    """Steps of two groups in turn, and conditions; the steps with the numbers in `full` have all slots busy."""
    run = small_run([5, 2] * 15, [1] * 30, workers=2, slots=1)
    busy = np.isin(np.arange(run.steps.rows), full)
    steps = dataclasses.replace(run.steps, group=np.arange(run.steps.rows) % 2, running_all=np.where(busy, 4, 3))
    conditions = dataclasses.replace(run.conditions, workers=4, slots_total=4, group_sizes=(2, 2), overhead_s=(1.0, 2.0))
    return conditions, steps, run.totals


@pytest.mark.parametrize(("full", "first", "last"), [(range(3, 13), 3, 12), (range(4, 13), 0, 14)])
def test_the_window_begins_and_ends_with_a_full_step_where_ten_are_full(full, first, last):
    conditions, steps, totals = two_groups([*full])
    steps = dataclasses.replace(steps, load_sum=steps.load_sum * np.linspace(0.5, 1.0, steps.rows))
    for block in (100, 5, 1):
        tally = Tally(conditions)
        for start in range(0, steps.rows, block):
            rows = slice(start, start + block)
            tally.add_steps(type(steps)(**{k: v[rows] for k, v in columns(steps).items()}))
        s = tally.summary(totals)
        assert s["window"]["kind"] == ("running" if first == 0 else "full-slots")
        assert (s["window"]["first_step"], s["window"]["last_step"]) == (first, last)
        assert s["window"]["steps"] == last - first + 1
        within = steps.envelope[first : last + 1]
        shares = 1 - steps.load_sum[first : last + 1] / (2 * within)
        assert s["idle_share"] == pytest.approx(shares.mean())


def test_a_group_without_a_step_in_the_window_is_taken_to_idle_as_the_others():
    conditions, steps, totals = two_groups([*range(15)])
    uneven = np.where(steps.group == 0, steps.load_sum, 2 * steps.envelope)
    for group, idle in ((steps.group, [0.3, 0.0]), (steps.group * 0, [0.15, 0.15])):
        tally = Tally(conditions)
        tally.add_steps(dataclasses.replace(steps, group=group, load_sum=uneven))
        s = tally.summary(totals)
        share = 1 - uneven / (2 * steps.envelope)
        expected = [share[group == g].mean() if (group == g).any() else share.mean() for g in range(2)]
        rate = metrics.full_slot_tokens_per_s(
            conditions, s["mean_load_tokens"], np.array(expected), totals.output_tokens / totals.active_steps
        )
        assert s["full_slot_tokens_per_s"] == pytest.approx(rate)
        assert expected == pytest.approx(idle, abs=0.02)
        rates = [steps.tokens[group == g].sum() / steps.duration_s[group == g].sum() for g in np.unique(group)]
        assert s["window_tokens_per_s"] == pytest.approx(sum(rates))


def test_the_energy_of_groups_adds_up_and_each_rests_when_its_own_steps_are_over():
    conditions, steps, totals = two_groups([*range(15)])
    tally = Tally(conditions, power=Power(idle_w=50.0))
    tally.add_steps(steps)
    s = tally.summary(dataclasses.replace(totals, makespan_s=100.0))
    rested_s = 200.0 - steps.duration_s.sum()  # of both groups, of two workers each
    assert s["energy_busy_idle_j"] == pytest.approx(steps.energy_busy_idle_j.sum() + 50.0 * 2 * rested_s)
    assert s["energy_step_average_j"] == pytest.approx(steps.energy_step_average_j.sum() + 50.0 * 2 * rested_s)


def test_a_long_table_is_worked_on_in_blocks_with_the_same_result(monkeypatch):
    run = small_run([5, 2, 9, 4] * 6, [3, 1, 2, 4] * 6, workers=2, slots=2)
    whole = flat(run.summary)
    for size in (1, 7, run.requests.rows, run.requests.rows - 1):
        monkeypatch.setattr(tallies, "_BLOCK", size)
        again = Tally(run.conditions)
        again.add_steps(run.steps)
        again.add_requests(run.requests)
        assert flat(again.summary(run.totals)) == pytest.approx(whole)
