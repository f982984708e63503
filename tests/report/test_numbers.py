from __future__ import annotations

import pytest

from evenstep.measure.comparison import Interval
from evenstep.report.numbers import counted, percent, relative, short, tick


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (1.2345, "1.23"),
        (12345.6, "12,346"),
        (-3.21, "-3.21"),
        (None, "-"),
        (float("-inf"), "-inf"),
        (1e-12, "0.000000000"),
    ],
)
def test_three_digits_are_enough(value, text):
    assert short(value) == text


def test_shares_read_as_per_cent():
    assert percent(0.02714) == "2.71"
    assert percent(None) == "-"


def test_differences_read_as_per_cent_of_the_baseline():
    assert relative(Interval(-5.0, -6.0, -4.0), 50.0) == "-10.00 % ±2.00"
    assert relative(Interval(5.0, None, None), 50.0) == "+10.00 %"
    assert relative(None, 50.0) == relative(Interval(1.0, 0.0, 2.0), 0) == "-"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.25, "0.25"), (15000, "15k"), (2.5e6, "2.5M"), (3e9, "3G")])
def test_axis_figures_are_short(value, text):
    assert tick(value) == text


def test_a_number_of_things_has_the_noun_in_the_right_form():
    assert [counted(1, "policy", "policies"), counted(2, "policy", "policies"), counted(1200, "point")] == [
        "1 policy",
        "2 policies",
        "1,200 points",
    ]
