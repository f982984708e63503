from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.report import svg
from evenstep.report.svg import REST, Board, Scale, from_zero, round_step, series_class, series_of


@pytest.mark.parametrize(("size", "step"), [(1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05), (2000, 2000)])
def test_steps_are_round(size, step):
    assert round_step(size) == pytest.approx(step)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_lie_inside_and_are_few(low, span):
    scale = Scale(low, low + span)
    ticks = scale.ticks()
    slack = 1e-6 * max(1.0, abs(low), span)
    assert 1 <= len(ticks) <= 7
    assert all(low - slack <= t <= low + span + slack for t in ticks)


def test_log_ticks_are_powers_of_ten():
    assert Scale(0.5, 2000, log=True).ticks() == [1, 10, 100, 1000]


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e4))
def test_a_logarithmic_axis_has_at_least_two_ticks_inside(low, times):
    ticks = Scale(low, low * times, log=True).ticks()
    assert 2 <= len(ticks) <= 13 and ticks == sorted(set(ticks))
    assert all(low * (1 - 1e-6) <= t <= low * times * (1 + 1e-6) for t in ticks)


def test_a_short_logarithmic_axis_has_ticks_between_powers_of_ten():
    assert Scale(0.3, 8, log=True).ticks() == [0.5, 1, 2, 5]
    assert Scale(2.1, 4.4, log=True).ticks() == [2.5, 3, 3.5, 4]


def test_numbers_of_a_narrow_axis_differ():
    chart = Board(Scale(0.0, 1.0), Scale(45.2311, 45.2319))
    chart.axes("x", "y")
    texts = re.findall(r'text-anchor="end">([^<]+)<', chart.svg())
    assert texts == ["45.2312", "45.2314", "45.2316", "45.2318"]


def test_a_policy_keeps_its_colour_wherever_it_stands():
    usual = ["fcfs", "jsq", "least-load", "br-0", "bf-io", "best", "bf-io:horizon=20"]
    numbers = series_of(usual)
    assert sorted(numbers.values()) == list(range(7))
    assert list(numbers) == usual
    for other in (usual[::-1], usual[3:], ["mine.py", *usual]):
        again = series_of(other)
        assert {name: again[name] for name in other if name in usual[:6]} == {
            name: numbers[name] for name in other if name in usual[:6]
        }


@given(st.lists(st.text(max_size=8), max_size=40))
def test_every_policy_of_a_report_has_marks_of_its_own_in_any_order(names):
    numbers = series_of(names)
    assert len(set(numbers.values())) == len(set(names))
    assert series_of(reversed(names)) == numbers
    if len(set(names)) <= 8:
        assert all(number < 8 for number in numbers.values())


def test_values_beyond_the_ends_are_put_on_them():
    assert Scale(0, 10).share(np.array([-5.0, 0, 2.5, 10, 99])).tolist() == [0, 0, 0.25, 1, 1]
    assert Scale(1, 100, log=True).share(np.array([0.0, 10, 1e9])).tolist() == [0, 0.5, 1]


def test_a_scale_from_zero_holds_every_value_and_survives_none():
    assert from_zero([np.array([1.0, 4.0]), np.array([np.nan, 10.0])], 1.0) == Scale(0.0, 10.0)
    assert from_zero([]) == from_zero([np.zeros(3)]) == from_zero([np.array([np.nan])]) == Scale(0.0, 1.0)


def board() -> Board:
    return Board(Scale(0, 10), Scale(0, 100), width=100, height=100, left=0, right=0, top=0, bottom=0)


def test_a_line_goes_from_the_lower_left_and_breaks_at_nan():
    b = board()
    b.line(np.array([0.0, 5, 6, 10]), np.array([0.0, 50, np.nan, 100]), 1)
    assert b.parts == ['<path class="line c1" d="M0.0 100.0L50.0 50.0M100.0 0.0"/>']
    b.line(np.array([1.0]), np.array([np.nan]), 1)
    assert len(b.parts) == 1


def test_an_area_closes():
    b = board()
    b.area(np.array([0.0, 10]), np.array([0.0, 0]), np.array([100.0, 50]), 0)
    b.area(np.zeros(0), np.zeros(0), np.zeros(0), 0)
    assert b.parts == ['<path class="area c0" d="M0.0 0.0L100.0 50.0L100.0 100.0L0.0 100.0Z"/>']


def test_a_bar_stands_on_the_axis():
    b = board()
    b.bar(0.5, 0.25, 40.0, 2, "<jsq>")
    assert b.parts[0].startswith('<rect class="bar c2" x="50.0" y="60.0" width="25.0" height="40.0">')
    assert "&lt;jsq&gt;" in b.parts[0]


def test_a_whole_chart_is_well_formed():
    b = Board(Scale(0, 10), Scale(0, 100), label='a "quoted" <label>')
    b.axes("time, s", "share & more")
    b.axes("x", "y", x_ticks=0)
    b.note(0.5, "1 < 2")
    root = ET.fromstring(b.svg())
    assert root.attrib["aria-label"] == 'a "quoted" <label>'
    assert "share & more" in {t.text for t in root.iter("text")}


def test_more_policies_than_colours_are_told_apart_by_dashes():
    assert series_class(3) == "c3"
    assert series_class(11) == "c3 d1"
    assert len({series_class(i) for i in range(24)}) == 24


def test_of_many_policies_the_first_have_colours_and_the_others_are_grey():
    names = [f"policy-{i}" for i in range(200)]
    found = series_of(names)
    assert sorted(found[name] for name in names[:8]) == [*range(8)]
    assert {found[name] for name in names[8:]} == {REST} and list(found) == names
    assert series_class(REST) == "rest" and REST not in series_of(names[:32]).values()


def test_every_class_has_a_style():
    from importlib.resources import files

    style = files("evenstep.report").joinpath("report.css").read_text(encoding="utf-8")
    for name in {c for i in range(REST, 40) for c in series_class(i).split()} | {
        "line",
        "thin",
        "area",
        "bar",
        "grid",
        "axis",
        "tick",
    }:
        assert re.search(rf"\.{name}\b", style), name


def test_names_beside_dots_lie_beside_each_other_and_on_the_board():
    board = Board(Scale(0.0, 10.0), Scale(0.0, 10.0))
    board.names([(9.9, 5.0, f"policy {k}") for k in range(9)] + [(5.0, 5.0, "a" * 99 + "<")])
    places = [
        (float(x), float(y), anchor, text)
        for x, y, anchor, text in re.findall(r'x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', board.svg())
    ]
    assert len({place[:3] for place in places}) == len(places) == 10
    assert all(anchor == "end" for *_, anchor, _ in places[:9]), "none fits right of the dots"
    assert all(12 <= y <= 300 for _, y, *_ in places) and len(places[9][3]) == 30


def test_colours_of_many_policies_are_found_once_for_all_rows(monkeypatch):
    hashed = []
    monkeypatch.setattr(svg.zlib, "crc32", lambda name: hashed.append(name) or 0)
    names = [f"only-here:option={number}" for number in range(100)]
    found = [series_of(iter(names)) for _ in names]
    assert len(hashed) == svg.FEW  # the others are grey
    found[0].clear()  # a caller's own
    assert found[1] == series_of(names) and len(found[1]) == len(names)
