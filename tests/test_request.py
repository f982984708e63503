"""One request, and a trace of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow
import pytest

from evenstep.errors import InputError
from evenstep.request import COLUMNS, PrefixBlocks, Request, Trace, offsets_of


def trace() -> Trace:
    return Trace(
        prompt_tokens=np.array([5, 6, 7, 8]),
        output_tokens=np.array([1, 2, 3, 4]),
        arrival_s=np.array([0.0, 0.5, 1.0, 2.0]),
        session=np.array([0, 0, 1, 1]),
        after=np.array([-1, 0, -1, 2]),
        think_s=np.array([0.0, 1.0, 0.0, 2.0]),
        prefix_blocks=PrefixBlocks(np.arange(10), np.array([0, 1, 3, 6, 10]), 16),
        notes=("read",),
    )


def test_a_trace_is_shown_in_a_line_and_not_with_all_its_rows():
    assert repr(trace()) == str(trace()) == "<trace of 4 requests>"
    assert repr(replace(trace(), name="mine.csv")) == "<trace of 4 requests from mine.csv>"


def test_a_row_of_a_trace_is_a_request():
    assert trace()[1] == Request(
        request_id=1, arrival_s=0.5, prompt_tokens=6, output_tokens=2, session=0, after=0, think_s=1.0
    )
    assert trace()[-1].request_id == 3
    with pytest.raises(IndexError):
        trace()[4]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"output_tokens": np.array([1, 2, 3])},
            r"made: output_tokens is \(3,\); expected shape \(4,\), one value a request.",
        ),
        ({"think_s": np.zeros(5)}, r"made: think_s is \(5,\); expected shape \(4,\)"),
        ({"session": np.zeros((4, 1), np.int64)}, r"made: session is \(4, 1\); expected shape \(4,\)"),
        (
            {"prefix_blocks": PrefixBlocks(np.arange(2), np.array([0, 1, 2]), 16)},
            r"made: prefix_blocks.offsets is \(3,\); .* \(5,\)",
        ),
    ],
)
def test_columns_of_different_lengths_are_named(change, said):
    with pytest.raises(InputError, match=said):
        replace(trace(), name="made", **change)


@pytest.mark.parametrize("column", ["prompt_tokens", "arrival_s"])
@pytest.mark.parametrize("kind", [list, tuple, pyarrow.array])
def test_a_column_that_is_no_array_is_refused_with_the_way_to_convert_it(column, kind):
    said = f"made: {column} is '{type(kind([1, 2])).__name__}'; expected a NumPy array. Trace.from_columns takes"
    with pytest.raises(InputError, match=said):
        replace(trace(), name="made", **{column: kind([1, 2, 3, 4])})


def test_narrow_times_are_made_wide_before_anything_is_computed_with_them():
    times = np.array([0.1, 70_000.3, 70_000.7], np.float32)
    trace = Trace(np.array([3, 4, 5]), np.array([2, 2, 2]), arrival_s=times, think_s=np.ones(3, np.float16))
    assert trace.arrival_s.dtype == trace.think_s.dtype == np.float64
    assert trace.arrival_s.tolist() == times.tolist()


def test_iterating_gives_every_row_once():
    assert [r.request_id for r in trace()] == [0, 1, 2, 3]


def test_an_absent_column_is_absent_and_reads_as_what_absence_means():
    assert trace().max_tokens is None
    assert trace().column("max_tokens").tolist() == [0, 0, 0, 0]
    assert Trace(np.array([1]), np.array([1])).column("session").tolist() == [-1]
    assert trace().column("prompt_tokens") is not None


def test_taking_rows_numbers_them_anew_and_maps_their_predecessors():
    taken = trace().take(np.array([2, 3, 1]))
    assert taken.prompt_tokens.tolist() == [7, 8, 6]
    assert taken.after is not None and taken.after.tolist() == [
        -1,
        0,
        -1,
    ]  # row 0, the last one's, is left out
    assert taken.prefix_blocks is not None
    assert [taken.prefix_blocks.row(i).tolist() for i in range(3)] == [[3, 4, 5], [6, 7, 8, 9], [1, 2]]
    assert taken.notes == ("read",)


@pytest.mark.parametrize("rows", [2.5, "3", -1, None, float("nan")])
def test_a_head_of_no_number_of_rows_is_one_error(rows):
    with pytest.raises(InputError, match=r"trace: rows is .*; expected a whole number >= 0\."):
        trace().head(rows)


@pytest.mark.parametrize("rows", [[4], [-1], [1.5], [True, False, True, False], 2, "ab", [[1], [2]]])
def test_rows_that_a_trace_does_not_have_are_one_error(rows):
    with pytest.raises(InputError, match=r"trace: rows is .*; expected whole numbers from 0 to 3, in one dimension\."):
        trace().take(rows)


def test_rows_may_be_a_list():
    assert trace().take([2, 3]).after.tolist() == [-1, 0]
    assert len(trace().take([])) == 0


@pytest.mark.parametrize("name", ["prompts", "name", 3])
def test_a_column_that_no_trace_has_is_one_error(name):
    with pytest.raises(InputError, match=f"trace: column is {name!r}; expected a column of a trace"):
        trace().column(name)


def test_the_head_is_the_first_rows_or_the_trace_itself():
    whole = trace()
    assert whole.head(2).output_tokens.tolist() == [1, 2]
    assert whole.head(9) is whole


def test_notes_are_added_at_the_end():
    assert trace().with_notes("a", "b").notes == ("read", "a", "b")


def test_columns_are_the_fields_of_a_request_but_its_number():
    assert COLUMNS[0] == "arrival_s"
    assert "request_id" not in COLUMNS
    assert len(COLUMNS) == 11


def test_offsets_say_where_rows_begin_and_the_last_one_ends():
    assert offsets_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert offsets_of([]).tolist() == [0]


def test_a_slice_of_a_trace_is_a_trace():
    assert trace()[1:3].prompt_tokens.tolist() == [6, 7]
    assert trace()[::-2].output_tokens.tolist() == [4, 2]
