from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.request import COLUMNS, Trace
from evenstep.workload.readers import parquet


def same(left: Trace, right: Trace) -> bool:
    for name in COLUMNS:
        a, b = getattr(left, name), getattr(right, name)
        if (a is None) != (b is None) or (a is not None and (a.dtype != b.dtype or not np.array_equal(a, b))):
            return False
    a, b = left.prefix_blocks, right.prefix_blocks
    if (a is None) != (b is None):
        return False
    if a is not None and b is not None:
        if not (np.array_equal(a.ids, b.ids) and np.array_equal(a.offsets, b.offsets)):
            return False
        if (a.block_tokens, a.scope) != (b.block_tokens, b.scope):
            return False
    return all(getattr(left, f) == getattr(right, f) for f in ("name", "format", "synthetic", "notes"))


@given(traces())
def test_whatever_is_written_is_read_back(trace):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        path.write_bytes(parquet.packed(trace))
        assert same(parquet.read(path), trace)


def test_blocks_can_be_left_out(samples):
    assert parquet.read(samples / "parquet.parquet").prefix_blocks is not None
    assert parquet.read(samples / "parquet.parquet", prefix_blocks=False).prefix_blocks is None


def table(**columns: object) -> pa.Table:
    return pa.table({"prompt_tokens": [5, 6], "output_tokens": [1, 2], **columns})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (table(output_tokens=[1, 0]), r"x\.parquet:2: output_tokens is 0"),
        (table(prompt_tokens=[5.0, 1.5]), r"x\.parquet:2: prompt_tokens is 1\.5"),
        (table(prompt_tokens=[5, None]), r"x\.parquet:2: prompt_tokens is nan"),
        (table(arrival_s=[1.0, 0.5]), r"x\.parquet:2: arrival_s is 0\.5; expected a time not before"),
        (table(arrival_s=[0.0, float("nan")]), r"x\.parquet:2: arrival_s is nan"),
        (table(prompt_tokens=["a", "b"]), "prompt_tokens is 'string'; expected a column of numbers"),
        (table(session=[0, 0], after=[-1, 1]), r"x\.parquet:2: after is 1; expected a row above"),
        (pa.table({"a": [1]}), "expected a column 'prompt_tokens'"),
        (table(prefix_blocks=[1, 2]), r"x\.parquet: prefix_blocks is 'int64'; expected a list of block ids in every row"),
        (
            table(prefix_blocks=[["a"], ["b"]]),
            r"x\.parquet: prefix_blocks is 'list<.*string>'; expected a list of block ids in every row",
        ),
        (
            pa.table({"prompt_tokens": pa.array([], pa.int64()), "output_tokens": pa.array([], pa.int64())}),
            "rows is 0",
        ),
    ],
)
def test_a_bad_table_is_named(tmp_path, content, message):
    pq.write_table(content, tmp_path / "x.parquet")
    with pytest.raises(InputError, match=message):
        parquet.read(tmp_path / "x.parquet")


@pytest.mark.parametrize("after", [1, 7])
def test_a_row_that_follows_itself_or_no_row_is_skipped(tmp_path, after):
    """Among rows that are skipped this ended in a loop without end, or an IndexError."""
    content = {"prompt_tokens": [5, 0, 6], "output_tokens": [1, 1, 2], "after": [-1, after, 1], "session": [0, 0, 0]}
    pq.write_table(pa.table(content), tmp_path / "x.parquet")
    trace = parquet.read(tmp_path / "x.parquet", skip_bad_rows=True)
    assert (trace.prompt_tokens.tolist(), trace.after.tolist()) == ([5, 6], [-1, -1])


def test_times_start_at_the_first_row_that_is_kept(tmp_path):
    three = {"prompt_tokens": [0, 5, 6], "output_tokens": [1, 1, 2], "arrival_s": [1.7e9, 1.7e9 + 2, 1.7e9 + 5]}
    pq.write_table(pa.table(three), tmp_path / "x.parquet")
    assert parquet.read(tmp_path / "x.parquet", skip_bad_rows=True).arrival_s.tolist() == [0.0, 3.0]


def test_bad_rows_can_be_skipped(tmp_path):
    pq.write_table(table(output_tokens=[1, 0]), tmp_path / "x.parquet")
    trace = parquet.read(tmp_path / "x.parquet", skip_bad_rows=True)
    assert (len(trace), trace.notes) == (
        1,
        ("1 bad row was skipped (output_tokens 1; the first in line 2).",),
    )


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (b"[1]", "evenstep is 'damaged metadata'; expected JSON written by evenstep"),
        (b"7", "evenstep is 'damaged metadata'; expected JSON written by evenstep"),
        (b"[]", "evenstep is 'damaged metadata'; expected JSON written by evenstep"),
        (b'{"version": 1, "notes": 3}', "notes is 3; expected a list"),
        (b'{"version": 1, "block_tokens": "many"}', "block_tokens is 'many'; expected an integer >= 1"),
        (b'{"version": 1, "scope": []}', r"scope is \[\]; expected session or global"),
    ],
)
def test_metadata_of_another_shape_is_an_error_of_the_file(tmp_path, about, said):
    blocks = table(prefix_blocks=[[1], [2]])
    pq.write_table(blocks.replace_schema_metadata({b"evenstep": about}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"^x\.parquet: .*{said}"):
        parquet.read(tmp_path / "x.parquet")


def test_a_damaged_file_and_a_newer_version_are_errors(tmp_path, samples):
    data = (samples / "parquet.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:500])
    with pytest.raises(InputError, match="damaged"):
        parquet.read(tmp_path / "cut.parquet")
    pq.write_table(table().replace_schema_metadata({b"evenstep": b'{"version": 99}'}), tmp_path / "new.parquet")
    with pytest.raises(InputError, match="version is 99"):
        parquet.read(tmp_path / "new.parquet")


def test_a_trace_that_says_1_for_drawn_is_read_again(tmp_path):
    path = tmp_path / "one.parquet"
    path.write_bytes(parquet.packed(Trace(np.array([1]), np.array([2]), synthetic=1)))
    assert parquet.read(path).synthetic is True
