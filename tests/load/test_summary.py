"""Figures of a run, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.load.outcomes import four

from evenstep.load.settings import LoadSettings
from evenstep.load.summary import failures, goodput, most_at_once, notes, summary
from evenstep.measure.quantiles import LogHistogram

#: What vLLM's ``bench serve`` writes for a served model, less what it keeps for each request.
VLLM = {
    "date",
    "endpoint_type",
    "model_id",
    "num_prompts",
    "request_rate",
    "max_concurrency",
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
    *(f"{kind}_{name}_ms" for kind in ("mean", "median", "std", "p99") for name in ("ttft", "tpot", "itl", "e2el")),
}


def test_a_summary_has_the_names_of_vllm_s_benchmark():
    assert set(summary(four(), LoadSettings())) >= VLLM


def test_failed_answers_count_for_nothing_but_their_number():
    found = summary(four(), LoadSettings(goodput="ttft:250"))
    assert (found["completed"], found["failed"], found["errors_by_kind"]) == (3, 1, {"cut": 1})
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (40, 9)
    assert found["output_throughput"] == pytest.approx(9 / 2.4)
    assert found["request_goodput"] == pytest.approx(2 / 2.4)
    assert found["mean_ttft_ms"] == pytest.approx(1e3 * (0.1 + 0.2 + 0.4) / 3)
    assert found["counting"] == "usage"


def test_time_per_token_is_of_the_tokens_after_the_first():
    found = summary(four(), LoadSettings())
    assert found["mean_tpot_ms"] == pytest.approx(1e3 * (0.4 / 4 + 0.1 / 2) / 2)
    assert found["mean_itl_ms"] == pytest.approx(1e3 * 0.5 / 6)
    assert found["median_itl_ms"] == pytest.approx(100.0, rel=1e-3)
    assert found["std_itl_ms"] == pytest.approx(1e3 * (0.045 / 6 - (0.5 / 6) ** 2) ** 0.5)


def test_percentiles_of_gaps_are_of_all_gaps():
    gaps = LogHistogram()
    gaps.add(np.arange(1, 101) / 1000.0)
    found = summary(four(gaps=gaps), LoadSettings())
    assert [found[f"p{p}_itl_ms"] for p in (90, 95, 99)] == pytest.approx([90.0, 95.0, 99.0], rel=0.02)


def test_the_most_tokens_are_of_a_whole_second():
    assert summary(four(), LoadSettings())["max_output_tokens_per_s"] == 5


def test_a_client_that_is_late_says_so():
    found = summary(four(), LoadSettings())
    assert found["max_late_start_ms"] == pytest.approx(20.0)
    assert any("slow itself" in line for line in notes(found))
    assert any("slow itself" in line for line in notes({**found, "p99_late_start_ms": 0.0, "client_cpu_share": 1.0}))
    at_limits = {**found, "p99_late_start_ms": 10.0, "client_cpu_share": 0.9}
    assert not any("slow itself" in line for line in notes(at_limits))
    (said,) = notes({**at_limits, "client_cpu_share": 0.953})
    assert "more than 10.0 ms late and used 95 % of a core" in said
    assert not any("slow itself" in line for line in notes({**found, "max_concurrency": 8}))  # they all start at once


def test_other_prompt_lengths_than_asked_for_and_estimates_are_said():
    found = summary(four(), LoadSettings())
    assert not any("prompt tokens" in line for line in notes(found))
    for told, is_said in ((99, True), (1009, False), (1011, True), (989, True)):
        lines = notes({**found, "asked_input_tokens": 1000 if told > 900 else 40, "total_input_tokens": told})
        assert any("prompt tokens" in line for line in lines) is is_said
    assert any("estimated" in line for line in notes({**found, "counting": "estimated"}))


def test_a_run_without_an_answer_is_not_said_to_be_estimated():
    found = summary(four(), LoadSettings())
    assert not any("estimated" in line for line in notes({**found, "counting": "estimated", "completed": 0}))


def test_the_two_most_frequent_failures_are_said_in_words():
    outcome = four()
    outcome.records.error[:] = ["status-500", "cut", "status-500", "connect"]
    outcome.records.message[:] = ["no\nmemory", "gone", "no\nmemory", "refused"]
    assert failures(outcome) == ["status-500 (2): no memory", "cut (1): gone"]
    outcome.records.message[0] = "x" * 400
    assert len(failures(outcome)[0]) < 220
    assert failures(four()) == ["cut (1): gone"]


def test_requests_that_have_not_ended_did_not_fail():
    outcome = four()
    outcome.records.error[2] = "not-ended"
    found = summary(outcome, LoadSettings())
    assert (found["completed"], found["failed"], found["errors_by_kind"]) == (2, 1, {"cut": 1})


def test_goodput_takes_every_objective_and_none_is_none():
    assert goodput(four(), {}) is None
    assert goodput(four(), {"ttft": 1e6, "tpot": 60.0}) == pytest.approx(2 / 2.4)
    assert goodput(four(), {"e2el": 300.0}) == pytest.approx(1 / 2.4)


def test_an_answer_of_two_tokens_at_the_very_limits_is_good_and_zero_prompt_tokens_are_a_number():
    outcome = four()
    r = outcome.records
    for column, value in ((r.started_s, 1.0), (r.first_s, 1.25), (r.last_s, 1.75), (r.ended_s, 2.0), (r.output_tokens, 2)):
        column[:] = value
    r.prompt_tokens[0] = 0
    found = summary(outcome, LoadSettings())
    assert [found[f"mean_{name}_ms"] for name in ("ttft", "tpot", "e2el")] == [250.0, 500.0, 1000.0]
    assert (found["total_input_tokens"], found["asked_input_tokens"]) == (30, 40)
    limits = {"ttft": 250.0, "tpot": 500.0, "e2el": 1000.0}
    assert goodput(outcome, limits) == 3 / 2.4
    for name, most_ms in limits.items():
        assert goodput(outcome, {**limits, name: most_ms - 0.1}) == 0.0


def test_a_run_without_a_good_answer_has_no_latencies():
    outcome = four(gaps=LogHistogram())
    outcome.records.error[:] = ["cut"] * 4
    found = summary(outcome, LoadSettings())
    assert found["completed"] == 0
    assert found["mean_ttft_ms"] is None and found["p99_itl_ms"] is None
    assert notes(found)


def test_requests_that_end_when_others_start_are_not_at_once():
    started, ended = np.array([0.0, 1.0, 1.5, np.nan]), np.array([1.0, 2.0, 3.0, np.nan])
    assert most_at_once(started, ended) == 2
    assert most_at_once(np.array([0.0, 0.5]), np.array([1.0, np.nan])) == 1


def test_every_figure_of_the_run_and_of_its_client_by_hand():
    found = summary(four(), LoadSettings(rate=2.0))
    assert (found["request_rate"], found["max_concurrency"]) == (2.0, None)
    assert found["request_throughput"] == pytest.approx(3 / 2.4)
    assert found["total_token_throughput"] == pytest.approx((40 + 9) / 2.4)
    assert found["request_goodput"] is None
    for name, values in {"ttft": [100.0, 200.0, 400.0], "tpot": [50.0, 100.0], "e2el": [500.0, 200.0, 580.0]}.items():
        of = [found[f"{kind}_{name}_ms"] for kind in ("mean", "median", "std", "p90", "p99")]
        assert of == pytest.approx([np.mean(values), np.median(values), np.std(values), *np.percentile(values, (90, 99))])
    assert (found["mean_late_start_ms"], found["p99_late_start_ms"]) == pytest.approx((5.0, 0.97 * 20.0))
    assert found["p99_client_lag_ms"] == pytest.approx(0.99)
    assert (found["client_cpu_share"], found["connections"]) == (pytest.approx(0.1), 2)
    assert found["max_concurrent_requests"] == 2


def test_what_the_run_does_not_have_is_missing():
    outcome = four(lag_s=np.zeros(0), tokens=np.zeros(0, np.int64))
    outcome.records.started_s[:] = np.nan
    outcome.records.error[:] = ["not-ended"] * 4
    found = summary(outcome, LoadSettings())
    for name in ("mean_late_start_ms", "p99_late_start_ms", "max_late_start_ms", "p99_client_lag_ms", "mean_tpot_ms"):
        assert found[name] is None
    assert (found["max_output_tokens_per_s"], found["max_concurrent_requests"], found["failed"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("more", "rate", "most"), [({}, "trace", None), ({"closed": 7}, "inf", 7), ({"rate": 0.5}, 0.5, None)]
)
def test_the_rate_is_the_one_asked_for_the_traces_or_as_fast_as_users_allow(more, rate, most):
    found = summary(four(), LoadSettings(**more))
    assert (found["request_rate"], found["max_concurrency"]) == (rate, most)


@pytest.mark.parametrize(
    ("counted", "errors", "expected"),
    [
        (["usage", "ids", "usage", "estimated"], ["", "", "", "cut"], "ids+usage"),
        (["usage", "ids", "usage", "estimated"], ["", "cut", "", "cut"], "usage"),
        (["usage", "estimated", "usage", "usage"], ["", "", "", ""], "estimated"),
        (["usage"] * 4, ["cut"] * 4, "estimated"),
    ],
)
def test_one_good_answer_that_was_estimated_makes_an_estimate_of_all(counted, errors, expected):
    outcome = four()
    outcome.records.counting[:], outcome.records.error[:] = counted, errors
    assert summary(outcome, LoadSettings())["counting"] == expected
