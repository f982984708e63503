"""The table and the page of the demonstration."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tests.load.test_demo import RUN, SETTINGS, row

from evenstep.load.demo_page import COLUMNS, cells, foot, head, line, page, strained, values


def test_a_line_has_a_figure_under_each_heading():
    first = row(RUN)
    names, units = head()
    assert len(names) == len(units) == len(line(first, first))
    assert cells(first, first)[:3] == ["250", "first", "200"]
    better = replace(row(RUN, "best"), tokens_per_s=275.0)
    assert cells(better, first)[1] == "+10.0"
    assert cells(replace(first, tokens_per_s=math.nan), first)[0] == "-"


def test_every_heading_and_figure_is_in_its_column():
    first = row(RUN)
    ends = [len("policy".ljust(12)) + sum(2 + width for _, _, width in COLUMNS[: at + 1]) for at in range(len(COLUMNS))]
    for text, words in (
        (head()[0], [name for name, _, _ in COLUMNS]),
        (head()[1], [unit for _, unit, _ in COLUMNS]),
        (line(first, first), cells(first, first)),
    ):
        assert [text[:end].endswith(f" {word}") for end, word in zip(ends, words, strict=True)] == [True] * len(COLUMNS)
    assert cells(first, first)[4:] == ["12.5", "10.0", "80.0", "5.00", "1"]
    dark = replace(first, idle_engines=math.nan, oldest_wait_s=math.nan)
    assert [cells(dark, first)[at] for at in (4, 5, 7)] == ["-", "10.0", "-"]


def test_a_run_without_steps_is_compared_with_nothing():
    none, some = replace(row(RUN), tokens_per_s=0.0), row(RUN, "best")
    assert cells(some, none)[1] == "-"
    assert "No policy here made more" in page(SETTINGS, [none, some], {}, "evenstep demo")
    slow = replace(row(RUN), tokens_per_s=0.5)
    assert cells(replace(some, tokens_per_s=0.75), slow)[1] == "+50.0"
    assert "made 50.0 % more" in page(SETTINGS, [slow, replace(some, tokens_per_s=0.75)], {}, "evenstep demo")


def test_a_machine_that_was_too_slow_is_told():
    one = row(RUN)
    assert any("too slow" in text for text in foot(SETTINGS, [one]))
    assert not any("too slow" in text for text in foot(SETTINGS, [replace(one, late_share=0.0)]))
    assert any("25 % of steps began late" in text for text in strained([replace(one, late_share=0.0), one]))


def test_the_highest_share_of_a_core_of_each_process_is_told():
    rows = [
        replace(row(RUN), cpu=cpu) for cpu in ({"engines": 0.5, "gateway": math.nan}, {"engines": 0.25, "client": 0.125})
    ]
    assert strained(rows)[0].startswith("CPU of a core at most: engines 50 %, client 12 %; ")


def test_steps_that_the_gateway_did_not_see_are_told():
    assert any("told only 50 %" in text for text in foot(SETTINGS, [replace(row(RUN), steps_seen=0.5)]))
    assert not any("told only" in text for text in foot(SETTINGS, [replace(row(RUN), steps_seen=1.0)]))


def test_a_policy_that_did_not_decide_by_itself_is_told():
    assert any("decided 25 % of the rounds" in text for text in foot(SETTINGS, [replace(row(RUN), fallback_share=0.25)]))
    assert not any("in its place" in text for text in foot(SETTINGS, [row(RUN)]))


def test_gathering_that_is_not_the_usual_is_told():
    assert any("best@0: the gateway gathers" in text for text in foot(SETTINGS, [row(RUN), row(RUN, "best@0")]))


def test_the_page_leads_with_the_best_and_holds_every_policy():
    first = row(RUN)
    text = page(SETTINGS, [first, replace(row(RUN, "best"), tokens_per_s=275.0)], {"evenstep": "0"}, "evenstep demo")
    assert "<b>best</b> made 10.0 % more tokens" in text
    assert text.count("<svg") == 6
    alone = page(SETTINGS, [first], {}, "evenstep demo")
    assert "No policy here" in alone


def test_the_figures_as_json_have_none_for_what_was_not_told():
    found = values(replace(row(RUN), idle_gateway=float("nan")))
    assert (found["policy"], found["tokens_per_s"], found["idle_gateway"]) == (
        "jsq",
        pytest.approx(250.0),
        None,
    )
    assert found["client"]["completed"] == 3
    assert [found[f"cpu_{name}"] for name in ("engines", "gateway", "client")] == pytest.approx([0.1, 0.2, 0.1])
    json.dumps(found, allow_nan=False)


def test_rows_whose_slots_were_not_full_say_so_and_are_not_compared_with_others():
    """The foot said full slots of every row."""
    full, short = row(RUN), replace(row(RUN, "best"), tokens_per_s=500.0, is_full=False)
    assert any("is of the time with full slots. Engine" in text for text in foot(SETTINGS, [full, full]))
    assert any("Under best they were hardly ever full" in text for text in foot(SETTINGS, [full, short]))
    assert any(text.startswith("Slots were hardly ever full: all but") for text in foot(SETTINGS, [short]))
    assert cells(short, full)[1] == "-"
    assert cells(replace(short, tokens_per_s=550.0), short)[1] == "+10.0"
    assert "No row compares with <b>jsq</b>" in page(SETTINGS, [full, short], {}, "evenstep demo")
    assert "No policy here made more" in page(SETTINGS, [full, short, full], {}, "evenstep demo")
    assert [values(one)["is_full"] for one in (full, short)] == [True, False]


def test_the_requests_counted_are_those_that_were_sent():
    """A short trace has fewer than were asked for."""
    assert any(text.startswith("4 requests of sample:azure-conv") for text in foot(SETTINGS, [row(RUN)]))
