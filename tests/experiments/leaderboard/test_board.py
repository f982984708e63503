"""Running a leaderboard."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.experiments.leaderboards import BOARD

from evenstep import names
from evenstep.errors import InputError
from evenstep.experiments.crew import Places
from evenstep.experiments.leaderboard.board import Board


@pytest.fixture
def path(tmp_path):
    (tmp_path / "b.yaml").write_text(BOARD)
    return tmp_path / "b.yaml"


def test_every_policy_of_the_room_is_on_the_board_and_those_that_look_ahead_have_a_predictor(path):
    listed = [policy for workload, policy in Board(path).cells if workload == "chat"]
    assert {policy.partition(":")[0] for policy in listed} == set(names.built_in("routing"))
    assert "br-h:predictor=live" in listed and "bf-io:horizon=4,predictor=oracle" in listed
    assert len(listed) == len(set(listed))


class Guest(NamedTuple):
    """An entry point of an installed package."""

    name: str
    value: str = "other.package:Policy"


@pytest.fixture
def installed(monkeypatch):
    """Install packages that offer policies of these names."""

    def install(*policies: str) -> None:
        guests = tuple(Guest(name) for name in policies)
        monkeypatch.setattr(names, "_offered", lambda room: guests if room == "routing" else ())

    return install


def test_what_is_installed_changes_no_board(path, installed):
    before = Board(path).cells
    alone = Board(path, policies=["jsq"]).run(Places())
    installed("guest", "jsq", "aco")
    assert Board(path).cells == before
    assert Board(path, policies=["jsq"]).run(Places()) == alone


def test_a_name_of_two_owners_is_an_error_where_a_board_adds_it(path, installed):
    installed("jsq")
    path.write_text(BOARD.replace("policies: [", "policies: ['jsq:ties=lowest', "))
    with pytest.raises(InputError, match=r"b\.yaml.*routing: name is 'jsq'; expected one owner. It is claimed by"):
        Board(path)


def test_a_name_alone_stands_for_all_that_is_listed_of_it(path):
    found = Board(path, workloads=["chat"], policies=["br-0"]).cells
    assert found == [("chat", "br-0"), ("chat", "br-0:age_limit=0")]


def test_slow_policies_are_left_out_where_the_file_says(path):
    assert [w for w, policy in Board(path).cells if policy == "aco"] == ["chat"]


def test_cells_have_what_their_runs_found_and_a_cache_spares_them(path, tmp_path):
    asked = {"policies": ["jsq", "bf-io:horizon=4,predictor=live"], "cache": tmp_path / "cache"}
    board = Board(path, **asked)
    cells = board.run(Places())
    assert [(c.workload, c.policy, c.predictor) for c in cells] == [
        ("chat", "bf-io:horizon=4,predictor=live", "survival"),
        ("chat", "jsq", ""),
        ("timed", "bf-io:horizon=4,predictor=live", "survival"),
        ("timed", "jsq", ""),
    ]
    assert all(len(set(c.digests)) == 2 and 0 < c.interval("idle_time_share").value < 1 for c in cells)
    assert board.made == 8
    again = Board(path, **asked)
    assert again.run(Places()) == cells and again.made == 0
    assert again.run(Places(), [("timed", "jsq")]) == [cells[3]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"workloads": ["chats"]}, "--workload is 'chats'; expected one on the board. Did you mean chat?"),
        ({"policies": ["jqs"]}, "--policy is 'jqs'; expected one on the board. Did you mean jsq?"),
    ],
)
def test_an_unknown_name_offers_the_nearest(path, asked, said):
    with pytest.raises(InputError) as error:
        Board(path, **asked)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("br-0:age_limit=0", "br-1", "b.yaml line 8: policy: name is 'br-1'; expected a known policy"),
        ("br-0:age_limit=0", "br-0:age=0", "b.yaml line 8: br-0: option is 'age'; expected a known option"),
        (
            "  aco:",
            "  acco:",
            "b.yaml line 9: policy: name is 'acco'; expected a known policy. Did you mean aco",
        ),
    ],
)
def test_a_policy_of_the_file_that_is_none_is_named_with_its_line(path, old, new, said):
    path.write_text(BOARD.replace(old, new))
    with pytest.raises(InputError) as error:
        Board(path)
    assert said in str(error.value)


def test_what_a_workload_lacks_is_said_before_the_first_run(path):
    lacking = "settings: {workers: 2, slots: 4, arrivals: timed"
    path.write_text(BOARD.replace("sample:azure-conv, settings: {workers: 2, slots: 4", f"sample:sharegpt, {lacking}", 1))
    with pytest.raises(InputError, match="chat: .*arrival times is 'absent'; expected times for timed arrivals"):
        Board(path)


def test_copies_are_no_replicates(path):
    path.write_text(BOARD.replace("pool: 8, limit: 60", "pool: 8, limit: 1"))
    with pytest.raises(InputError, match="chat, jsq: seeds is 2; expected replicates that differ"):
        Board(path, workloads=["chat"], policies=["jsq"]).run(Places())
