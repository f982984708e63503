"""A leaderboard as a Parquet file, and the commit of a checkout."""

from __future__ import annotations

import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.experiments.leaderboards import table

from evenstep.errors import InputError
from evenstep.experiments.leaderboard.table import commit_of, day_of, read_table, write_table


def test_what_is_written_is_read_again(tmp_path):
    made = table({"w": {"a": [1, 2], "o": [0.5, None]}, "v": {"a": [3, 4, 5]}}, oracles=["o"])
    assert write_table(made, tmp_path / "b.parquet") == 7
    assert read_table(tmp_path / "b.parquet") == made
    assert [cell.policy for cell in made.of("w")] == ["a", "o"] and [cell.policy for cell in made.of("v")] == ["a"]
    assert made.of("x") == [] and made.policies == ("a", "o")


def test_a_file_that_is_no_leaderboard_is_one_clear_error(tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "y.parquet")
    for name in ("x", "y", "missing"):
        with pytest.raises(InputError, match="expected a leaderboard"):
            read_table(tmp_path / f"{name}.parquet")


def test_an_interval_needs_a_value_of_every_replicate():
    made = table({"w": {"a": [1, None], "b": [1, 3]}})
    a, b = made.cells
    assert a.interval("idle_time_share") is None and a.versus(b, "idle_time_share") is None
    assert b.interval("idle_time_share").value == 2


def test_policies_differ_over_the_replicates_that_both_have():
    made = table({"w": {"a": [3, 5, 9], "b": [1, 2]}})
    a, b = made.cells
    found = a.versus(b, "idle_time_share")
    assert found.value == 2.5 and found.half == pytest.approx(12.7062 / 2, rel=1e-5)  # t of one degree, deviation sqrt(1/2)
    assert b.versus(a, "idle_time_share").value == -2.5


def test_a_board_from_before_a_metric_is_read_without_values_of_it(tmp_path):
    path = tmp_path / "b.parquet"
    write_table(table({"w": {"a": [1, 2]}}), path)
    pq.write_table(pq.read_table(path).drop_columns(["idle_time_share"]), path)
    (read,) = read_table(path).cells
    assert read.interval("idle_time_share") is None and read.interval("idle_share").value == 1.5


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", "1970-01-05T12:00:00+0000")
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.org")
    (tmp_path / "a").write_text("1")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_commit_is_named_and_dated_and_changes_are_owned_up_to(checkout):
    commit = commit_of(checkout)
    assert len(commit) == 10 and day_of(checkout) == 4
    (checkout / "b").write_text("not tracked")
    assert commit_of(checkout) == commit
    (checkout / "a").write_text("2")
    assert commit_of(checkout) == f"{commit} with local changes"


def test_outside_a_checkout_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == "" and day_of(tmp_path) is None
