"""A decision log as the start of a comparison."""

from __future__ import annotations

import re

import pytest
from tests.dispatch.recorded_run import record

from evenstep.experiments.compare.observed import errors, from_log, is_log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.evlog"
    record(path, workers=3, slots=8, requests=200, per_s=100.0)
    return path


def test_only_a_decision_log_is_taken_for_one(log, tmp_path):
    other = tmp_path / "x.csv"
    other.write_text("prompt_tokens,output_tokens\n1,2\n")
    (tmp_path / "empty").write_text("")
    assert is_log(str(log))
    assert not any(map(is_log, (str(other), "sample:azure-conv", str(tmp_path), str(tmp_path / "empty"), "nothing")))


def test_fleet_law_and_arrivals_are_settings(log):
    found = from_log(str(log))
    assert {name: found.values[name] for name in ("workers", "slots", "groups", "arrivals")} == {
        "workers": 3,
        "slots": 8,
        "groups": [],
        "arrivals": "timed",
    }
    assert found.values["overhead_s"] == pytest.approx(0.0049, rel=0.02)
    assert "kv_tokens" not in found.values
    assert "3 workers, 8 slots each" in found.said[0] and "policy jsq" in found.said[0]
    assert re.search(r"s a token ± [\d.]+ % \(R\^2 ", found.said[1]), "no law without a bound on its error"


def test_what_contradicts_a_flag_is_left_out(log):
    found = from_log(str(log))
    assert "groups" not in found.layer({"workers"})
    assert "arrivals" not in found.layer({"users"})
    assert not {"overhead_s", "per_token_s"} & set(found.layer({"law"}))
    assert found.layer(()) == found.values


def test_what_the_log_does_not_decide_in_the_end_is_named(log):
    found = from_log(str(log))
    origin = {
        "workers": "command line",
        "slots": "decision log",
        "kv_tokens": "default",
        "policies": "command line",
    }
    assert found.overridden(origin) == ["workers"]


def test_a_predictor_of_the_log_goes_into_the_policy(tmp_path):
    record(tmp_path / "log.jsonl", "br-h:horizon=6", predictor="survival:window=50", requests=60)
    assert from_log(str(tmp_path / "log.jsonl")).policy == "br-h:horizon=6,predictor=survival,predictor.window=50"


def test_the_error_is_a_share_of_what_was_observed():
    found = errors(
        {"tokens_per_s": 110.0, "makespan_s": 5.0, "mean_wait_s": 1.0},
        {"tokens_per_s": 100.0, "mean_wait_s": 0.0},
    )
    assert found["tokens_per_s"] == {"observed": 100.0, "simulated": 110.0, "error": pytest.approx(0.1)}
    assert found["mean_wait_s"]["error"] is None and "makespan_s" not in found
