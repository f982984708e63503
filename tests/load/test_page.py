"""The table and the page of a run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.load.outcomes import four

from evenstep.load import page as load_page
from evenstep.load.page import charts_of, page, table
from evenstep.load.settings import LoadSettings
from evenstep.load.summary import summary
from evenstep.measure.quantiles import LogHistogram
from evenstep.report.svg import series_of


def shown(**changes):
    outcome = four(**changes)
    return outcome, summary(outcome, LoadSettings(goodput="ttft:250"))


def test_the_table_tells_errors_goodput_and_latencies():
    text = "\n".join(table(shown()[1]))
    assert "3 of 4 good in 2.4 s; failed: 1 cut" in text
    assert "goodput 0.833 requests/s" in text
    assert re.search(r"^TTFT +233 +200", text, re.M)
    for counting, said in (("usage", "; tokens counted by usage"), ("estimated", "; tokens estimated")):
        assert table(shown()[1] | {"counting": counting})[2].endswith(said)


def test_the_table_of_a_run_without_good_answers_has_dashes():
    one = shown(gaps=LogHistogram())
    one[0].records.error[:] = ["cut"] * 4
    lines = table(summary(one[0], LoadSettings()))
    assert re.fullmatch(r"ITL( +-)+", lines[-2])


def test_the_table_tells_failures_and_goodput_only_if_there_are_any():
    found = shown()[1]
    assert table(found)[3].endswith("; 10 % of a core")
    lines = table(found | {"errors_by_kind": {}, "request_goodput": None})
    assert lines[0].endswith(" s") and lines[1].endswith("tokens/s with prompts")


def test_the_page_needs_nothing_else_and_escapes_what_it_shows():
    text = page("Load on <x>", {"a<b": shown(), "c": shown()}, ["<p>lead</p>"], {"server": "<s>"}, "evenstep load <t>")
    assert text.count("<svg") == 6
    assert "<x>" not in text and "a<b" not in text and "<s>" not in text and "<t>" not in text
    assert "<script" not in text and "http://" not in text
    assert "<p>lead</p>" in text


def test_a_page_of_one_run_has_no_legend():
    for names, legends in (("a", 0), ("ab", 2)):
        text = page("t", {name: shown() for name in names}, [], {}, "evenstep load")
        assert text.count('<div class="legend">') == legends


@pytest.fixture
def drawn(monkeypatch):
    """What charts are made of: the series of each, its titles of axes, and whether its x axis is logarithmic."""
    charts = []

    def draw(series, label, x_title, y_title, log=False):
        charts.append((series, x_title, y_title, log))
        return "<svg>"

    monkeypatch.setattr(load_page, "distribution", draw)
    monkeypatch.setattr(load_page, "lines", draw)
    return charts


def test_distributions_are_of_good_answers_in_the_unit_of_their_axis_and_gaps_are_of_all(drawn):
    one = shown()
    one[0].records.error[:] = ["cut", "", "", ""]  # 5 tokens failed; 1, 3 and 2 did not
    charts_of({"a": one})
    assert [chart[1:] for chart in drawn[:4]] == [
        ("TTFT, ms", "share of requests, %", True),
        ("TPOT, ms", "share of requests, %", False),
        ("ITL, ms", "share of gaps, %", False),
        ("E2EL, s", "share of requests, %", True),
    ]
    ttft, tpot, itl, e2el = (chart[0][0][1] for chart in drawn[:4])
    assert ttft == pytest.approx([200.0, 400.0, 100.0])
    assert tpot == pytest.approx([50.0, 100.0]), "the answer of one token has none"
    assert e2el == pytest.approx([0.2, 0.58, 0.4])
    assert itl.size == 1001 and itl[[0, 200, 300, 400, 1000]] == pytest.approx([50, 50, 75, 100, 100], rel=1e-2)


def test_output_tokens_are_shown_a_second_at_the_middle_of_each(drawn):
    charts_of({"a": shown()})
    (_, at, rate), *_ = drawn[4][0]
    assert (at.tolist(), rate.tolist()) == ([0.5, 1.5, 2.5], [5.0, 4.0, 2.0])
    assert drawn[4][1:3] == ("time, s", "tokens/s")


@pytest.mark.parametrize(("seconds", "points"), [(300, 300), (301.25, 241)])
def test_a_run_of_over_300_seconds_has_longer_stretches_of_the_same_rate(drawn, seconds, points):
    charts_of({"a": shown(tokens=np.full(round(4 * seconds), 3))})
    (_, at, rate), *_ = drawn[4][0]
    assert rate.tolist() == [12.0] * points
    assert at[-1] + at[0] == seconds


def test_requests_under_way_are_those_sent_and_not_ended(drawn):
    charts_of({"a": shown()})
    (_, at, running), *_ = drawn[5][0]
    assert (at.size, at[0], at[-1], running[0], running[-1]) == (300, 0.0, 2.4, 1.0, 0.0)
    near = np.searchsorted(at, [0.25, 0.75, 1.1, 1.4, 1.8, 2.2])
    assert running[near].tolist() == [1, 0, 2, 1, 0, 1]


def test_requests_of_a_run_without_an_end_are_under_way_for_its_first_second(drawn):
    one = shown()
    one[0].records.ended_s[:] = np.nan
    charts_of({"a": one})
    (_, at, running), *_ = drawn[5][0]
    assert (at[0], at[-1], running[0], running[-1]) == (0.0, 1.0, 1.0, 2.0)


def test_every_chart_has_a_line_for_each_run():
    for _, svg, _ in charts_of({"a": shown(), "b": shown()}):
        first, second = series_of("ab").values()
        assert first != second
        assert f'class="line c{first}"' in svg and f'class="line c{second}"' in svg


def test_charts_of_nothing_are_empty_and_not_an_error():
    one = shown(gaps=LogHistogram(), tokens=np.zeros(0, np.int64))
    one[0].records.error[:] = ["cut"] * 4
    assert [bool(svg) for _, svg, _ in charts_of({"a": one})][:4] == [False] * 4


def test_figures_of_how_it_was_made_have_few_digits():
    made_by = {"share": 0.123456789012345, "many": [1.23456789, 2], "seconds": 1.1e-07}
    text = page("t", {"a": shown()}, [], made_by, "evenstep load")
    assert "<dd>0.123457</dd>" in text and "<dd>1.23457, 2</dd>" in text and "<dd>1.1e-07</dd>" in text
