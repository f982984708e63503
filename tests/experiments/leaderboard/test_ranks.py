"""Ranks on a leaderboard."""

from __future__ import annotations

import pytest
from tests.experiments.leaderboards import cell, table

from evenstep.experiments.leaderboard.ranks import alike, overall, standings


def test_less_is_better_and_equal_means_share_a_rank():
    cells = [cell("w", "c", [3, 4]), cell("w", "a", [1, 2]), cell("w", "b", [3, 4]), cell("w", "d", [8, 9])]
    found = standings(cells, "idle_time_share")
    assert [(one.cell.policy, one.rank) for one in found] == [("a", 1), ("c", 2), ("b", 2), ("d", 4)]


def test_an_oracle_stands_at_its_place_without_a_rank_and_is_nobodys_best():
    cells = [cell("w", "a", [2, 2.1]), cell("w", "o", [1, 1.1], oracle=True), cell("w", "b", [3, 3.1])]
    found = standings(cells, "idle_time_share")
    assert [(one.cell.policy, one.rank) for one in found] == [("o", None), ("a", 1), ("b", 2)]
    behind = {one.cell.policy: one.behind for one in found}
    assert behind["a"] is None
    assert behind["b"].value == pytest.approx(1.0) and behind["o"].value == pytest.approx(-1.0)
    assert [one.level for one in found] == [False, True, False]


def test_differences_are_paired_so_a_policy_may_be_clearly_behind_within_overlapping_intervals():
    cells = [cell("w", "a", [1, 5, 9]), cell("w", "b", [1.1, 5.1, 9.11])]
    first, second = standings(cells, "idle_time_share")
    assert first.value.high > second.value.low
    assert second.behind.is_clear and not second.level


def test_fewer_replicates_are_compared_with_the_first_ones_of_the_others():
    found = standings([cell("w", "a", [1, 2, 30]), cell("w", "b", [12, 13])], "idle_time_share")
    assert [one.cell.policy for one in found] == ["a", "b"]
    assert found[1].behind.value == pytest.approx(11)


def test_a_policy_without_a_value_comes_last_without_a_rank():
    found = standings([cell("w", "a", [None, 1]), cell("w", "b", [2, 3])], "idle_time_share")
    assert [(one.cell.policy, one.rank) for one in found] == [("b", 1), ("a", None)]


def test_the_mean_rank_is_over_the_workloads_a_policy_ran_on_and_a_part_comes_after_the_whole():
    found = overall(
        table(
            {
                "w": {"a": [1, 1.1], "b": [2, 2.1], "c": [0.1, 0.2], "o": [0, 0.1]},
                "v": {"a": [5, 5.1], "b": [4, 4.1], "o": [9, 9.1]},
                "u": {"a": [1, 1.1], "b": [1.05, 1.2], "o": [9, 9.1]},
            },
            oracles=["o"],
        )
    )
    assert [(one.policy, one.ranks, one.level) for one in found] == [
        ("a", (2, 2, 1), 1),
        ("b", (3, 1, 2), 2),
        ("c", (1, None, None), 1),
    ]
    assert [one.mean_rank for one in found] == [pytest.approx(5 / 3), 2.0, 1.0]
    assert [one.complete for one in found] == [True, True, False]


def test_policies_that_decide_alike_everywhere_are_grouped():
    found = table({"w": {"a/1": [1, 2], "b": [1, 2], "a/2": [1, 2]}, "v": {"a/1": [3, 4], "a/2": [3, 4]}})
    assert alike(found) == [("a/1", "a/2")]
    assert alike(table({"w": {"a/1": [1, 2], "a/2": [1, 2]}, "v": {"a/1": [3, 4], "a/2": [3, 5]}})) == []
