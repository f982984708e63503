from __future__ import annotations

import numpy as np
import pytest

from evenstep.cost.knots import as_lines, averaged, check_knots, check_sync, line_knots, pairs_of
from evenstep.cost.linear import Linear
from evenstep.errors import InputError


def test_pairs_read_the_same_from_text_and_from_a_list():
    assert pairs_of("law", "knots", "0:0/1e5:0.011") == pairs_of("law", "knots", ((0, 0), (100000, 0.011)))


@pytest.mark.parametrize("text", ["0", "0:1:2", "", "a:b", "0:nan/1:2", "0:0//1:1"])
def test_text_that_is_no_pairs_names_field_and_value(text):
    with pytest.raises(InputError, match=r"^law: knots is "):
        pairs_of("law", "knots", text)


@pytest.mark.parametrize(
    ("knots", "shown"),
    [
        ([], "0 knots"),
        ([(0, 0)], "1 knots"),
        ([(-1, 0), (2, 2)], "-1:0"),
        ([(0, -1), (2, 2)], "0:-1"),
        ([(0, 0), (0, 1)], "0:1"),
        ([(0, 0), (5, 1), (4, 2)], "4:2"),
        ([(0, 1), (5, 0.5)], "5:0.5"),
    ],
)
def test_the_first_bad_knot_is_named(knots, shown):
    with pytest.raises(InputError, match=f"law: knots is '{shown}'"):
        check_knots("law", "knots", knots)


def sync_seconds(sync, size: int) -> float:
    return Linear(overhead_s=0.0, sync_s=sync).overhead_seconds(size)


def test_a_constant_sync_is_the_same_for_every_group():
    for given in (0.25, "0.25", np.float32(0.25)):
        assert sync_seconds(given, 4) == sync_seconds(given, 64) == 0.25


def test_a_sync_by_group_size_is_straight_between_two_sizes():
    assert [sync_seconds("4:1/8:2/64:2", size) for size in (4, 6, 8, 64)] == [1.0, 1.5, 2.0, 2.0]


@pytest.mark.parametrize("size", [3, 65])
def test_a_group_beyond_the_measured_sizes_is_refused(size):
    with pytest.raises(InputError, match=f"group size is {size}; expected a group of 4 to 64 workers"):
        sync_seconds("4:1/64:2", size)


@pytest.mark.parametrize("sync", [-1.0, float("nan"), "x", "4:1/4:2", "0:1/3:1", "2.5:1/3:1", "4:-1/8:1", ()])
def test_a_bad_sync_is_refused(sync):
    with pytest.raises(InputError, match=r"^law: (sync_s|group size) is "):
        check_sync("law", "sync_s", sync)


def test_a_line_may_be_level_and_begin_anywhere_from_0_on():
    for text in ("0:0/1:1", "0:2/5:2/9:2", "1:2/2:4", "1:3/2:4"):
        assert line_knots("law", "knots", text) == pairs_of("law", "knots", text)


def test_a_line_that_would_be_below_0_at_load_0_is_refused():
    with pytest.raises(InputError, match="knots is '1:1'; expected a first line not below 0 at load 0. Begin with 0:0"):
        line_knots("law", "knots", "1:1/2:3/5:5")


def test_a_group_of_the_only_size_with_a_sync_has_it():
    assert sync_seconds("1:0.5", 1) == 0.5


def test_lines_of_knots_are_those_of_all_workers_less_what_lies_above_them():
    lines = as_lines(((0, 1.0), (10, 3.0)), above=0.5)
    assert lines.local_seconds(np.array([0.0, 5.0, 10.0, 20.0])).tolist() == [0.5, 1.5, 2.5, 4.5]
    assert as_lines(((0, 1.0), (10, 3.0))).local_seconds(np.array([5.0])).tolist() == [2.0]


def test_the_overhead_of_a_group_has_its_sync_on_top():
    assert Linear(overhead_s=0.25, per_token_s=0.0, sync_s="4:1/8:2").overhead_seconds(6) == 1.75


def test_measurements_at_one_point_are_averaged():
    assert averaged(np.array([2.0, 1.0, 2.0]), np.array([1.0, 5.0, 3.0])) == ((1.0, 5.0), (2.0, 2.0))
