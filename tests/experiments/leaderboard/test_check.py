"""Which tenth of a leaderboard is run again, and which orders flipped."""

from __future__ import annotations

import pytest
from tests.experiments.leaderboards import cell, table

from evenstep.experiments.leaderboard.check import PARTS, changed, flips, part_of

CELLS = [(f"w{w}", f"p{p}") for w in range(4) for p in range(25)]
STORED = table({"w": {"good": [1, 1.1, 1.2], "bad": [3, 3.1, 3.2], "near": [1, 1.3, 1.1]}})


def test_ten_parts_have_every_cell_once_and_each_its_share_of_every_workload():
    parts = [part_of(CELLS, part) for part in range(PARTS)]
    assert sorted(cell for part in parts for cell in part) == sorted(CELLS)
    for part in parts:
        assert all(2 <= sum(name == workload for name, _ in part) <= 3 for workload in ("w0", "w1", "w2", "w3"))


def test_each_part_of_a_small_board_has_a_cell():
    parts = [part_of(CELLS[:3], part) for part in range(PARTS)]
    assert all(len(part) == 1 for part in parts) and {cell for part in parts for cell in part} == set(CELLS[:3])


def test_a_part_is_the_same_whatever_order_cells_are_listed_in():
    assert set(part_of(CELLS, 3)) == set(part_of(CELLS[::-1], 3))
    assert part_of(CELLS, 3) != part_of(CELLS, 4)
    # it is drawn, not every tenth of the list
    assert part_of(CELLS, 0) != CELLS[::10]


def test_the_same_values_flip_nothing():
    assert flips(STORED, STORED.cells) == [] and changed(STORED, STORED.cells) == []


def test_an_order_that_turns_over_with_disjoint_intervals_is_found_once_and_said():
    again = [cell("w", "good", [4, 4.1, 4.2]), cell("w", "bad", [2, 2.1, 2.2])]
    found = [flip for flip in flips(STORED, again) if "near" not in (flip.first, flip.second)]
    assert [(flip.first, flip.second) for flip in found] == [("good", "bad")]
    assert "w: good was better than bad (idle_time_share [0.8516, 1.348] and" in str(found[0])
    assert [one.policy for one in changed(STORED, again)] == ["good", "bad"]


def test_a_cell_run_again_is_also_held_against_the_stored_others():
    found = flips(STORED, [cell("w", "good", [4, 4.1, 4.2])])
    assert [(flip.first, flip.second) for flip in found] == [("good", "bad")]


@pytest.mark.parametrize(
    "again",
    [
        pytest.param([cell("w", "good", [3.05, 3.2, 3.15])], id="now overlapping"),
        pytest.param([cell("w", "near", [0.1, 0.11, 0.12])], id="overlapping before"),
        pytest.param([cell("w", "new", [0.1, 0.11, 0.12])], id="not on the board"),
        pytest.param([cell("w", "good", [None, 9, 9])], id="without a value"),
    ],
)
def test_no_flip_without_disjoint_intervals_before_and_after(again):
    assert flips(STORED, again) == []
