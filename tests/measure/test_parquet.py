from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.measure.small_cluster import small_run

from evenstep.errors import InputError
from evenstep.measure.parquet import TABLES, read_run, read_table, write_run, write_table
from evenstep.measure.records import DecisionTable, columns


def sample():
    run = small_run([3, 5, 1, 2], [4, 1, 2, 2], workers=2)
    step = np.arange(run.steps.rows)
    decisions = DecisionTable(step, step * 1.5, step, step, step, np.full(step.size, np.nan))
    return dataclasses.replace(run, decisions=decisions)


def test_a_run_comes_back_as_it_was(tmp_path):
    run = sample()
    files = write_run(run, tmp_path / "deep" / "run")
    assert [f.name for f in files] == [
        "requests.parquet",
        "steps.parquet",
        "workers.parquet",
        "decisions.parquet",
    ]
    back = read_run(tmp_path / "deep" / "run")
    assert (back.conditions, back.digest, back.summary) == (run.conditions, run.digest, run.summary)
    assert dataclasses.asdict(back.totals) == dataclasses.asdict(run.totals)
    for name in TABLES:
        ours, theirs = columns(getattr(run, name)), columns(getattr(back, name))
        for column, values in ours.items():
            np.testing.assert_array_equal(theirs[column], values, strict=True)


def test_a_law_without_t_l_survives_json(tmp_path):
    run = sample()
    bent = dataclasses.replace(run, conditions=dataclasses.replace(run.conditions, seconds_per_token=math.nan))
    write_run(bent, tmp_path)
    assert math.isnan(read_run(tmp_path).conditions.seconds_per_token)


def test_other_tools_read_plain_columns(tmp_path):
    write_run(sample(), tmp_path)
    steps = pq.read_table(tmp_path / "steps.parquet").to_pydict()
    assert steps["envelope"] == sample().steps.envelope.tolist()
    assert pq.read_table(tmp_path / "workers.parquet").column("load").type == pa.list_(pa.float64(), 2)


def test_only_the_tables_there_are_written(tmp_path):
    write_run(dataclasses.replace(sample(), workers=None, decisions=None), tmp_path)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["requests.parquet", "steps.parquet"]
    assert read_run(tmp_path).workers is None


def test_a_run_without_records_is_refused(tmp_path):
    bare = dataclasses.replace(sample(), requests=None, steps=None, workers=None, decisions=None)
    with pytest.raises(InputError, match="records is 'off'"):
        write_run(bare, tmp_path)


def test_a_file_that_is_no_record_table_is_refused(tmp_path):
    (tmp_path / "steps.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"steps.parquet: file is .* expected a Parquet file"):
        read_run(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "steps.parquet")
    with pytest.raises(InputError, match="expected a record table of version 1"):
        read_table(tmp_path / "steps.parquet")
    with pytest.raises(InputError, match="expected a folder with record tables"):
        read_run(tmp_path / "none")


def test_a_table_with_a_column_missing_is_refused(tmp_path):
    write_run(sample(), tmp_path)
    steps = pq.read_table(tmp_path / "steps.parquet")
    pq.write_table(steps.drop_columns(["envelope"]), tmp_path / "steps.parquet")
    with pytest.raises(InputError, match="columns is 'envelope'"):
        read_table(tmp_path / "steps.parquet")


def test_tables_of_different_runs_are_refused(tmp_path):
    write_run(sample(), tmp_path / "one")
    write_run(small_run([1, 1], [1, 1]), tmp_path / "two")
    shutil.copy(tmp_path / "two" / "steps.parquet", tmp_path / "one")
    with pytest.raises(InputError, match="expected tables of one run"):
        read_run(tmp_path / "one")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_a_clear_error():
    with pytest.raises(InputError, match="No space left on device"):
        write_table(sample().steps, Path("/dev/full"), {})


def test_classes_come_back_where_a_table_has_them(tmp_path):
    run = small_run([3, 5], [4, 1])
    kinds = np.array([2, 0])
    write_table(dataclasses.replace(run.requests, request_class=kinds), tmp_path / "requests.parquet", {})
    table, _ = read_table(tmp_path / "requests.parquet")
    assert table.request_class.tolist() == [2, 0]


@pytest.mark.parametrize("head", [b"no JSON", b"[1]", b'"text"'])
def test_damaged_metadata_is_one_clear_error(tmp_path, head):
    table = pa.table({"decision": [1]}).replace_schema_metadata({b"evenstep": head})
    pq.write_table(table, tmp_path / "decisions.parquet")
    with pytest.raises(InputError, match="a record table of version 1"):
        read_table(tmp_path / "decisions.parquet")
