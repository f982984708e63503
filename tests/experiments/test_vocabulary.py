"""The words an experiment is written in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from evenstep.experiments import vocabulary as ex
from evenstep.report.figures import COLOURS
from evenstep.report.findings import cells


def test_rows_and_claims_that_come_by_turns_are_told_apart_in_their_order():
    def part(case):
        yield ex.Claim(f"{case} is seen", True, "")
        yield from (ex.Row(f"{case}, {k}", "wait", "s", None, ex.Interval(1.0, None, None)) for k in range(2))

    found = ex.told(part("one"), [*part("two")], ())
    assert [row.case for row in found["rows"]] == ["one, 0", "one, 1", "two, 0", "two, 1"]
    assert [claim.says for claim in found["claims"]] == ["one is seen", "two is seen"]


def test_ratios_are_taken_replicate_by_replicate():
    found = ex.ratio([2.0, 40.0], [1.0, 20.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_a_ratio_to_nothing_has_no_value_and_settles_no_claim():
    found = ex.ratio([2.0, 0.0], [0.0, 0.0])
    assert math.isnan(found.value)
    assert cells([ex.Row("base", "gain", "", None, found)])[1][4] == "-"
    assert ex.limited("gains", found, 1.0, +1).holds is None
    assert ex.limited("gains", found, 1.0, -1).holds is None
    assert ex.placed("is near", found, 0.5, 2.0).holds is None


def test_a_row_has_no_difference_to_itself():
    numbers = [1.0, 2.0]
    assert ex.row("base", "wait", "s", numbers, None, numbers, "base").against == ""
    assert ex.row("other", "wait", "s", [2.0, 3.0], None, numbers, "base").against == "base"


def test_a_difference_without_a_clear_sign_settles_nothing():
    assert ex.clearly(ex.paired_difference([1.0, 1.1, 0.9], [2.0, 2.1, 2.2]), -1) is True
    assert ex.clearly(ex.paired_difference([1.0, 1.1, 0.9], [2.0, 2.1, 2.2]), +1) is False
    assert ex.clearly(ex.Interval(0.1, -1.0, 1.2), +1) is None
    assert ex.clearly(ex.Interval(5.0, None, None), +1) is None


def test_a_range_is_kept_only_by_the_whole_interval():
    assert ex.within(ex.Interval(0.5, 0.42, 0.58), 0.4, 0.6) is True
    assert ex.within(ex.Interval(0.5, 0.39, 0.58), 0.4, 0.6) is None
    assert ex.within(ex.Interval(0.5, 0.42, 0.61), 0.4, 0.6) is None
    assert ex.within(ex.Interval(0.7, 0.61, 0.79), 0.4, 0.6) is False
    assert ex.within(ex.Interval(0.3, 0.21, 0.39), 0.4, 0.6) is False
    assert ex.within(ex.Interval(0.5, None, None), 0.4, 0.6) is None


def test_a_claim_of_several_cases_holds_if_all_do_and_fails_with_one():
    assert ex.all_of([True, True]) is True
    assert ex.all_of([True, None]) is None
    assert ex.all_of([None, False, True]) is False


def test_tables_are_joined_row_after_row():
    assert ex.joined([{"a": [1], "b": [2]}, {"a": [3], "b": [4]}]) == {"a": [1, 3], "b": [2, 4]}
    assert math.isfinite(sum(ex.joined([{"a": [1.0]}])["a"]))


def test_constants_are_lines_of_a_table_and_an_indented_line_goes_on():
    found = ex.constants(f"""
        G | {16} | Fig. 6
        good fit | largest gap <= 0.05 | the paper gives
          no measure
    """)
    assert found == [
        ex.Constant("G", "16", "Fig. 6"),
        ex.Constant("good fit", "largest gap <= 0.05", "the paper gives no measure"),
    ]
    with pytest.raises(TypeError):
        ex.constants("G | 16")


def test_a_claim_of_a_difference_shows_it_where_the_text_has_braces():
    found = ex.compared("less", [1.0, 1.1, 0.9], [2.0, 2.1, 2.2], -1, "apart by {} s")
    assert (found.says, found.holds) == ("less", True)
    assert found.seen.startswith("apart by -1.1") and found.seen.endswith(" s")
    assert ex.compared("less", [1.0, 1.1, 0.9], [2.0, 2.1, 2.2], +1).holds is False


def test_claims_of_a_limit_and_of_a_range_are_settled_by_the_whole_interval():
    half = ex.Interval(0.5, 0.42, 0.58)
    assert ex.limited("above", half, 0.4, +1).holds is True
    assert ex.limited("above", half, 0.5, +1).holds is None
    assert ex.limited("below", half, 0.4, -1, "no figure").seen == "no figure"
    assert ex.placed("near", half, 0.4, 0.6).holds is True


def test_a_claim_on_the_limit_of_several_values_fails_with_one_of_them():
    below, around, above = (ex.Interval(x, x - 0.1, x + 0.1) for x in (0.3, 0.5, 0.7))
    assert ex.all_limited("below", [below, below], 0.5, -1, "a figure") == ex.Claim("below", True, "a figure")
    assert ex.all_limited("below", [below, around], 0.5, -1, "").holds is None
    assert ex.all_limited("below", [below, around, above], 0.5, -1, "").holds is False


def test_cases_are_parted_from_the_sentence_on_what_stands_in():
    assert ex.parted({1: ("a", "drawn"), 2: ("b", "drawn")}) == ({1: "a", 2: "b"}, "drawn")
    assert ex.parted({1: ("a", "drawn"), 2: ("b", "read")})[1] == "drawn; read"


def test_samples_of_workers_become_long_columns():
    found = ex.by_worker(np.array([[1.0, 2.0], [3.0, 4.0]]), case="fcfs", step=np.array([7, 9]))
    assert {name: list(column) for name, column in found.items()} == {
        "case": ["fcfs"] * 4,
        "step": [7, 7, 9, 9],
        "worker": [0, 1, 0, 1],
        "load_tokens": [1.0, 2.0, 3.0, 4.0],
    }


def test_a_line_is_drawn_for_every_label_however_many():
    axes = Figure().subplots()
    ex.lines(axes, {str(n): ([0, 1], [n, n]) for n in range(len(COLOURS) + 2)})
    assert len(axes.lines) == len(COLOURS) + 2
    assert axes.lines[0].get_color() == axes.lines[len(COLOURS)].get_color()
