"""The table and the page of a run."""

from __future__ import annotations

import re

import numpy as np
from tests.load.outcomes import four

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


def test_the_page_needs_nothing_else_and_escapes_what_it_shows():
    text = page("Load on <x>", {"a<b": shown(), "c": shown()}, ["<p>lead</p>"], {"server": "<s>"}, "evenstep load <t>")
    assert text.count("<svg") == 6
    assert "<x>" not in text and "a<b" not in text and "<s>" not in text and "<t>" not in text
    assert "<script" not in text and "http://" not in text
    assert "<p>lead</p>" in text


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
