"""Axes, grids and Latin hypercubes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.experiments.sweep.points import Axis, axis_of, grid_points, latin_points


def axis(given, number=float):
    return axis_of("pool", given, "sweep.yaml line 3", number=number)


def test_a_range_holds_both_ends():
    assert axis({"from": 0, "to": 1, "points": 5}).grid() == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert axis({"from": 0.1, "to": 0.3, "points": 3}).grid() == (0.1, 0.2, 0.3)


def test_a_logarithmic_range_has_equal_ratios_and_whole_numbers_where_it_has_to():
    found = axis({"from": 32, "to": 512, "points": 5, "scale": "log"}, int).grid()
    assert found == (32, 64, 128, 256, 512)
    assert all(type(value) is int for value in found)


def test_shares_of_an_axis_of_a_hypercube_by_hand():
    listed, whole, log = (
        Axis("a", ("x", "y", "z")),
        axis({"from": 2, "to": 4}, int),
        axis({"from": 1, "to": 100, "scale": "log"}),
    )
    assert [listed.drawn(share) for share in (0.0, 0.33, 0.34, 0.99, 1.0)] == ["x", "x", "y", "z", "z"]
    assert [whole.drawn(share) for share in (0.0, 0.33, 0.34, 0.99, 1.0)] == [2, 2, 3, 4, 4]
    assert [log.drawn(share) for share in (0.0, 0.25, 0.5, 1.0)] == [1.0, 3.16227766017, 10.0, 100.0]
    assert axis({"from": -1, "to": 1}).drawn(0.25) == -0.5


def test_two_points_are_the_ends_and_a_value_may_come_again_as_another_type():
    assert axis({"from": 3, "to": 4, "points": 2}, int).grid() == (3, 4)
    assert axis([1, True, "1"]).grid() == (1, True, "1")


def test_a_grid_is_every_combination_the_last_parameter_fastest():
    assert grid_points([Axis("a", (1, 2)), Axis("b", ("x", "y"))]) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_latin_hypercube_has_one_point_in_each_part_of_each_axis(count, seed):
    axes = [axis({"from": 0, "to": 1}), axis({"from": 2, "to": 4})]
    points = latin_points(axes, count, seed)
    assert points == latin_points(axes, count, seed)
    for place, (low, width) in enumerate(((0.0, 1.0), (2.0, 2.0))):
        parts = [min(int((point[place] - low) / width * count + 1e-9), count - 1) for point in points]
        assert sorted(parts) == list(range(count))


def test_listed_values_share_their_axis_of_a_hypercube_evenly():
    points = latin_points([Axis("a", ("x", "y"))], 10, 3)
    assert [point[0] for point in points].count("x") == 5


@pytest.mark.parametrize(("low", "high"), [(2, 9), (1, 3), (0, 1), (-2, 1)])
def test_whole_numbers_share_their_axis_of_a_hypercube_evenly_the_ends_too(low, high):
    span = range(low, high + 1)
    points = [point[0] for point in latin_points([axis({"from": low, "to": high}, int)], 3 * len(span), 1)]
    assert sorted(points) == sorted(3 * list(span))


@pytest.mark.parametrize(("low", "high"), [(10**13 + 1, 10**13 + 7), (1_234_567_890_123, 10**14 + 1)])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_large_whole_numbers_stay_within_their_range_and_keep_their_last_digits(low, high, scale):
    span = axis({"from": low, "to": high, "points": 7, "scale": scale}, int)
    points = [point[0] for point in latin_points([span], 70, 1)]
    assert low <= min(points) and max(points) <= high and any(point % 10 for point in points)
    assert (min(span.grid()), max(span.grid())) == (low, high)


def test_fractions_with_many_digits_stay_within_their_range():
    low, high = 0.1234567890123456, 0.1234567890123469
    span = axis({"from": low, "to": high, "points": 2})
    assert span.grid() == (low, high)
    assert all(low <= span.drawn(share) <= high for share in (0.0, 0.3, 1.0))
    found = axis({"from": low, "to": high, "points": 5}).grid()
    assert sorted(found) == [*found] and (found[0], found[-1]) == (low, high)


def test_whole_numbers_on_a_logarithmic_scale_stay_within_their_range():
    points = [point[0] for point in latin_points([axis({"from": 1, "to": 8, "scale": "log"}, int)], 300, 1)]
    assert set(points) == set(range(1, 9))
    assert points.count(1) > 2 * points.count(4) > 2 * points.count(8)


@pytest.mark.parametrize("given", [{"from": 2.5, "to": 7}, {"from": 2, "to": 7.5}])
def test_a_range_of_whole_numbers_has_whole_ends(given):
    with pytest.raises(InputError, match=r"is [27]\.5; expected a whole number"):
        axis(given, int)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "over.pool is '[]'; expected at least one value"),
        ([1, 2, 1], "over.pool is 1; expected each value once"),
        (8, "over.pool is 8; expected a list of values, or a range"),
        ({"from": 5, "to": 5, "points": 2}, "over.pool is '5 to 5'; expected a range that is not empty"),
        ({"from": 6, "to": 5, "points": 2}, "over.pool is '6 to 5'; expected a range that is not empty"),
        ({"from": 6, "too": 5}, "over.pool.too is 5; expected a known key. Did you mean to?"),
        ({"from": 6}, "over.pool.to is 'missing'; expected a finite number"),
        ({"from": 1, "to": 10**400}, "over.pool.to is 1000"),
        ({"from": "six", "to": 7}, "over.pool.from is 'six'; expected a finite number"),
        ({"from": 0, "to": 7, "scale": "log"}, "over.pool.from is 0; expected a number above 0"),
        ({"from": 1, "to": 7, "scale": "lgo"}, "over.pool.scale is 'lgo'; expected one of linear, log"),
        ({"from": 1, "to": 7, "points": 1}, "over.pool.points is 1; expected an integer >= 2"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(InputError, match=re.escape(f"sweep.yaml line 3: {message}")):
        axis(given, int)


def test_a_grid_needs_a_number_of_points_and_whole_numbers_that_differ():
    with pytest.raises(InputError, match=r"pool.points is 'missing'; expected a number of points for a grid"):
        axis({"from": 1, "to": 7}).grid()
    with pytest.raises(InputError, match="pool.points is 10; expected at most 3 for whole numbers from 1 to 3"):
        axis({"from": 1, "to": 3, "points": 10}, int).grid()


def test_what_is_no_number_has_no_range():
    with pytest.raises(InputError, match="expected a list of values"):
        axis({"from": 1, "to": 7}, None)
