"""Checks on real traces, which are too large to ship: set EVENSTEP_TRACES to a folder that holds them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evenstep.workload import statistics
from evenstep.workload.reading import read_trace

pytestmark = pytest.mark.real_traces
FOLDER = Path(os.environ.get("EVENSTEP_TRACES", "."))

# file, format with options, rows, requests/s, CV of gaps, its median in 5-minute windows, prompt p50 and p99, output p50 and p99
KNOWN = [
    ("azure2023_conv_first40min.csv.gz", "azure", 14_176, 5.91, 1.08, 1.03, (1015, 4121), (115, 598)),
    ("azure2023_code.csv.gz", "azure", 8_819, 2.57, 13.2, 9.9, (1469, 7436), (13, 251)),
    ("vidur_splitwise_conv_first40min.csv.gz", "vidur", 14_176, 5.91, 1.08, 1.03, (1015, 4121), (115, 598)),
    (
        "mooncake_conversation_first40min.jsonl.gz",
        "mooncake:ticks=keep",
        7_851,
        3.28,
        2.97,
        3.00,
        (7284, 89868),
        (356, 1168),
    ),
    ("mooncake_synthetic.jsonl.gz", "mooncake", 3_993, 3.91, 1.01, 1.01, (11587, 66456), (69, 768)),
    ("lmcache_agent_miniswe.jsonl.gz", "lmcache", 402, 0.73, 0.67, 0.67, (3792, 34504), (98, 294)),
    ("lmcache_agent_magagent.jsonl.gz", "lmcache", 746, 0.1155, 1.69, 0.72, (1191, 10690), (377, 10001)),
    ("etalon_sharegpt_8k_lengths.csv.gz", "lengths", 30_731, None, None, None, (1730, 7434), (415, 998)),
    ("vidur_arxiv_summarization_lengths.csv.gz", "lengths", 28_257, None, None, None, (2730, 3933), (167, 3271)),
]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row[0])
def test_the_statistics_are_the_published_ones(row):
    file, form, rows, rate, cv, cv_5min, prompt, output = row
    found = statistics.describe(read_trace(FOLDER / file, form))
    assert found["rows"] == rows
    for name, value in (("requests_per_s", rate), ("cv_gaps", cv), ("cv_gaps_5min", cv_5min)):
        assert found[name] == (None if value is None else pytest.approx(value, rel=0.01)), name
    assert (found["prompt_tokens"]["p50"], found["prompt_tokens"]["p99"]) == pytest.approx(prompt, abs=1)
    assert (found["output_tokens"]["p50"], found["output_tokens"]["p99"]) == pytest.approx(output, abs=2)


def test_spread_ticks_are_close_to_poisson():
    found = statistics.describe(read_trace(FOLDER / "mooncake_conversation_first40min.jsonl.gz"))
    assert 0.9 < found["cv_gaps"] < 1.2
    assert found["prefix_share"] == pytest.approx(0.35, abs=0.005)


def test_agentic_sessions_read_whole():
    found = statistics.describe(read_trace(FOLDER / "cc_agentic_sessions.jsonl.gz"))
    assert (found["rows"], found["sessions"]["count"]) == (34_466 - 18, 521)
    assert (found["sessions"]["requests_p50"], found["sessions"]["requests_max"]) == (43, 561)
    assert found["prefix_share"] == pytest.approx(0.96, abs=0.005)
    assert found["sessions"]["think_s"]["p50"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("file", "clients", "requests", "rate", "peak", "cv"),
    [
        ("servegen_deepseek-r1.tar.gz", 73, 1.38e6, 16.0, 2.7, 2.3),
        ("servegen_mm-image.tar.gz", 35, 0.82e6, 9.5, 1.4, 2.2),
        ("servegen_m-large_rates.tar.gz", 162, 196 * 1_209_600, 196, 3.0, 3.5),
    ],
)
def test_clients_have_the_published_rates(file, clients, requests, rate, peak, cv):
    found = statistics.describe_clients(FOLDER / file)
    assert found["clients"] == clients
    assert found["requests_implied"] == pytest.approx(requests, rel=0.01)
    assert (found["requests_per_s"], found["peak_to_mean"], found["cv_gaps"]) == pytest.approx((rate, peak, cv), rel=0.02)
