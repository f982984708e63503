from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import traces

from evenstep.request import Trace
from evenstep.workload import statistics
from evenstep.workload.readers.servegen_clients import Client, Law
from evenstep.workload.reading import read_trace


def law(tokens):
    return {"input_tokens": Law(np.array([tokens]), np.array([1.0]))}


def test_the_bundled_sample_has_the_figures_of_its_source():
    found = statistics.describe(read_trace("sample:azure-conv"))
    assert (found["rows"], found["span_s"]) == (3000, pytest.approx(628.703398))
    assert found["requests_per_s"] == pytest.approx(4.77, abs=0.01)
    assert (found["cv_gaps"], found["cv_gaps_5min"]) == (
        pytest.approx(1.09, abs=0.01),
        pytest.approx(1.01, abs=0.01),
    )
    assert found["prompt_tokens"] == pytest.approx(
        {"mean": 1150.1, "p50": 1041, "p95": 4080, "p99": 4107, "max": 7930}, abs=0.1
    )
    assert found["share_at_largest"] == pytest.approx(0.001)


def test_times_too_large_for_a_spread_have_none():
    found = statistics.describe(Trace.from_columns([1, 1, 1], [1, 1, 1], [0, 0, 1e308]))
    assert found["cv_gaps"] is None and json.dumps(found, allow_nan=False)


def test_cv_of_even_gaps_is_0_and_of_too_few_unknown():
    assert statistics.cv_of_gaps(np.arange(9.0)) == 0
    assert math.isnan(statistics.cv_of_gaps(np.array([0.0, 1.0])))
    assert math.isnan(statistics.cv_of_gaps(None))
    assert math.isnan(statistics.cv_of_gaps(np.zeros(5)))


def test_drift_between_windows_is_left_out_of_the_second_cv():
    slow, quick = np.arange(0, 300, 10.0), np.arange(300, 600, 0.5)
    times = np.concatenate([slow, quick])
    assert statistics.cv_of_gaps(times) > 1
    assert statistics.cv_in_windows(times) == 0
    assert math.isnan(statistics.cv_in_windows(np.arange(10.0)))


@given(traces())
def test_every_trace_can_be_described_as_json_without_nan(trace):
    found = statistics.describe(trace)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(traces())
def test_the_digest_tells_requests_apart_and_nothing_else(trace):
    longer = replace(trace, output_tokens=trace.output_tokens + 1)
    assert statistics.digest(trace) == statistics.digest(replace(trace, name="other", notes=()))
    assert statistics.digest(trace) != statistics.digest(longer)


def test_sessions_and_prefixes_are_counted(samples):
    found = statistics.describe(read_trace(samples / "agentic.jsonl"))
    assert found["span_s"] is None and found["requests_per_s"] is None
    assert (found["sessions"]["count"], found["sessions"]["requests_max"]) == (2, 6)
    assert found["prefix_share"] == pytest.approx((2 + 1 + 3 + 4 + 2 + 3) / 25)


def test_clients_are_described_with_and_without_lengths(samples):
    found = statistics.describe_clients(samples / "servegen.tar.gz")
    assert (found["clients"], found["clients_with_lengths"], found["span_s"]) == (2, 2, 1800.0)
    assert found["requests_implied"] == round((0.5 + 1.5 + 0.2 + 0.1 + 0.4) * 600)
    assert found["peak_to_mean"] == pytest.approx(1.6 / 0.9)
    assert found["lengths"]["output_tokens"]["max"] == 30
    assert "audio_count" not in found["lengths"]
    rates = statistics.describe_clients(samples / "servegen_rates.tar.gz")
    assert (rates["lengths"], rates["notes"]) == (
        {},
        ["Rates only: no requests can be drawn from this file."],
    )


def test_lengths_of_clients_count_windows_without_laws_as_they_are_drawn(monkeypatch):
    """The first window borrows the laws of the second, the third those of the one before; a client that sends nothing has none."""
    laws = {600.0: law(10), 1200.0: {}, 1800.0: law(100)}
    one = np.ones(4)
    sends = Client(0, np.arange(4) * 600.0, one, one, ("",) * 4, one, laws)
    silent = Client(
        1, np.zeros(1), np.zeros(1), np.ones(1), ("",), np.ones(1), {0.0: {"audio_tokens": law(7)["input_tokens"]}}
    )
    monkeypatch.setattr(statistics, "load", lambda path: [sends, silent])
    found = statistics.describe_clients(Path("x.tar"))["lengths"]
    assert found == {"input_tokens": {"mean": 32.5, "p50": 10, "p95": 100, "p99": 100, "max": 100}}


def test_only_a_tar_of_clients_is_a_generator(samples):
    assert statistics.is_generator(samples / "servegen.tar.gz")
    assert not statistics.is_generator(samples / "azure.csv")


def test_one_request_can_be_described():
    found = statistics.describe(Trace(np.array([5]), np.array([3]), arrival_s=np.array([0.0])))
    assert (found["rows"], found["cv_gaps"], found["requests_per_s"]) == (1, None, None)


def test_a_trace_of_sessions_by_hand():
    """Gaps of 1, 3 and 4 s; the second request follows row 0, the fourth row 2; the third belongs to no session."""
    trace = Trace(
        np.array([1, 2, 3, 6]),
        np.array([5, 9, 9, 9]),
        arrival_s=np.array([2.0, 3.0, 6.0, 10.0]),
        request_class=np.array([7, 7, 3, 3]),
        session=np.array([0, 0, -1, 4]),
        after=np.array([-1, 0, -1, 2]),
        think_s=np.array([0.0, 2.0, 0.0, 4.0]),
    )
    found = statistics.describe(trace)
    assert (found["span_s"], found["classes"], found["share_at_largest"]) == (8.0, 2, 0.75)
    assert found["requests_per_s"] == 3 / 8
    assert found["prompt_tokens"] == pytest.approx({"mean": 3.0, "p50": 2.5, "p95": 5.55, "p99": 5.91, "max": 6})
    think = found["sessions"].pop("think_s")
    assert found["sessions"] == {"count": 2, "requests_p50": 1.5, "requests_max": 2}
    assert think == pytest.approx({"mean": 3.0, "p50": 3.0, "p95": 3.9, "max": 4.0})
    plain = statistics.describe(Trace(np.array([1]), np.array([1])))
    assert (plain["classes"], plain["sessions"], plain["prefix_share"]) == (None, None, None)
    assert statistics.cv_of_gaps(trace.arrival_s[:3]) == 0.5  # two gaps are enough


@pytest.mark.parametrize(("count", "is_enough"), [(19, False), (20, True)])
def test_twenty_arrivals_make_a_window_that_counts(count, is_enough):
    assert math.isnan(statistics.cv_in_windows(np.arange(float(count)))) is not is_enough


def test_twelve_clients_by_hand(monkeypatch):
    """Client i sends i requests a second at a cv of i, the last one in the second window; 128 lengths are equally likely."""
    even = {0.0: {"input_tokens": Law(np.arange(1, 130), np.minimum(np.arange(1, 130) / 128, 1.0))}}
    clients = [
        Client(i, np.array([600.0 * (i == 12)]), np.array([1.0 * i]), np.array([1.0 * i]), ("",), np.ones(1), even)
        for i in range(1, 13)
    ]
    monkeypatch.setattr(statistics, "load", lambda path: clients)
    found = statistics.describe_clients(Path("x.tar"))
    assert (found["requests_implied"], found["span_s"], found["requests_per_s"]) == (78 * 600, 1200.0, 39.0)
    assert found["peak_to_mean"] == pytest.approx(66 / 39)
    assert found["cv_gaps"] == pytest.approx(650 / 78)
    assert found["top_10_share"] == pytest.approx(75 / 78)
    assert found["lengths"]["input_tokens"] == {"mean": 64.5, "p50": 64, "p95": 122, "p99": 127, "max": 128}
