from __future__ import annotations

import pytest

from evenstep.measure.comparison import Interval
from evenstep.report.numbers import percent, relative, short, tick, ticks


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
        (1e-12, "0"),
        (-1e-15, "0"),
        (5e-10, "0.000000001"),
        (999.4, "999"),
        (100.0, "100"),
        (float("nan"), "-"),
    ],
)
def test_three_digits_are_enough(value, text):
    assert short(value) == text


def test_more_or_fewer_digits_may_be_asked_for():
    assert [short(1.2345, digits) for digits in (1, 2, 4)] == ["1", "1.2", "1.234"]
    assert [percent(0.02714, places) for places in (0, 1, 3)] == ["3", "2.7", "2.714"]
    assert relative(Interval(1.0, 0.5, 1.5), 8.0, 1, " points") == "+12.5 points ±6.2"


def test_shares_read_as_per_cent():
    assert percent(0.02714) == "2.71"
    assert percent(None) == percent(float("nan")) == "-"


def test_differences_read_as_per_cent_of_the_baseline():
    assert relative(Interval(-5.0, -6.0, -4.0), 50.0) == "-10.00 % ±2.00"
    assert relative(Interval(5.0, None, None), 50.0) == "+10.00 %"
    assert relative(Interval(5.0, 4.0, 6.0), -50.0) == "-10.00 % ±2.00"
    assert relative(Interval(1.0, 0.5, 1.5), 0.5) == "+200.00 % ±100.00"
    assert relative(Interval(1.0, 0.5, 1.5), None) == "-"
    assert relative(None, 50.0) == relative(Interval(1.0, 0.0, 2.0), 0) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (999.9, "999.9"),
        (1000, "1k"),
        (15000, "15k"),
        (-2500, "-2.5k"),
        (1e6, "1M"),
        (2.5e6, "2.5M"),
        (1e9, "1G"),
        (3e9, "3G"),
        (1234567, "1.23457M"),
    ],
)
def test_axis_figures_are_short(value, text):
    assert tick(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 0.5, 1.0], ["0", "0.5", "1"]),
        ([1.23456, 1.23457], ["1.23456", "1.23457"]),
        ([100_000.1, 100_000.2], ["100.0001k", "100.0002k"]),
        ([2.0, 2.0], ["2", "2"]),
    ],
)
def test_the_figures_of_an_axis_have_as_many_digits_as_tell_them_apart(values, texts):
    assert ticks(values) == texts
