"""Charts of a sweep."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tests.measure.test_swept import run, swept

from evenstep.report.html import figure_of, title_of
from evenstep.report.sweep_plots import against, over_two

NUMBERS = {"parameters": ("workers", "pool"), "points": ((8, 16), (8, 64), (4, 16), (4, 64))}


def test_numbers_on_a_grid_are_lines_with_bands():
    svg = against(swept(**NUMBERS), "workers", "idle_share")
    root = ET.fromstring(svg)
    assert svg.count('class="line') == 1 and svg.count('class="area') == 1 and svg.count("<circle") == 2
    assert "load imbalance, %" in svg and ">4<" in svg and ">8<" in svg
    assert root.attrib["aria-label"] == "idle_share against workers"


def test_words_are_dots_with_whiskers():
    svg = against(swept(), "arrivals", "idle_share")
    assert svg.count("<circle") == 2 and svg.count('class="line') == 2 and 'class="area' not in svg
    assert ">timed<" in svg and ">closed<" in svg


def test_every_point_of_a_hypercube_is_a_dot():
    svg = against(swept(**NUMBERS, grid=False), "workers", "idle_share")
    assert svg.count("<circle") == 4 and 'class="area' not in svg


def test_a_metric_without_values_has_no_chart():
    empty = tuple(((run(0, None), run(1, None)),) for _ in range(4))
    assert against(swept(runs=empty), "workers", "idle_share") == ""
    assert over_two(swept(**NUMBERS, runs=empty), "workers", "pool", "idle_share") == {}


def test_a_heat_map_shows_a_figure_for_each_pair_of_values():
    (svg,) = over_two(swept(**NUMBERS), "workers", "pool", "idle_share").values()
    assert svg.count("<rect") == 4
    for text in (">10.5<", ">20.5<", ">30.5<", ">40.5<", ">16<", ">64<"):
        assert text in svg


def test_a_single_value_and_one_replicate_can_be_drawn():
    one = swept(parameters=("x",), points=((3,),), runs=(((run(0, 0.0),),),), met=(True,))
    assert "<circle" in against(one, "x", "idle_share")


def test_metrics_that_no_table_names_are_called_by_their_own_name():
    assert title_of("idle_share") == "load imbalance, %"
    assert (figure_of("p99_wait_s").heading, title_of("p99_wait_s")) == ("p99 wait s", "p99 wait s")
