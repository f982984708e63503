"""A leaderboard as a Parquet file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.experiments.leaderboards import table

from evenstep.errors import InputError
from evenstep.experiments.leaderboard.table import read_table, write_table


def test_what_is_written_is_read_again(tmp_path):
    made = table({"w": {"a": [1, 2], "o": [0.5, None]}, "v": {"a": [3, 4, 5]}}, oracles=["o"])
    assert write_table(made, tmp_path / "b.parquet") == 7
    assert read_table(tmp_path / "b.parquet") == made


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


def test_a_board_from_before_a_metric_is_read_without_values_of_it(tmp_path):
    path = tmp_path / "b.parquet"
    write_table(table({"w": {"a": [1, 2]}}), path)
    pq.write_table(pq.read_table(path).drop_columns(["idle_time_share"]), path)
    (read,) = read_table(path).cells
    assert read.interval("idle_time_share") is None and read.interval("idle_share").value == 1.5
