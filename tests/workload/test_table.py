from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.workload.table import MISSING, Doubt, Table, codes, session_numbers


def table(values: object, *, skip: bool = False, fast: bool = False, field: str = "n") -> Table:
    size = len(values)  # type: ignore[arg-type]
    return Table("f.csv", {field: values}, None if fast else np.arange(2, 2 + size), size, skip=skip)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "value",
    [
        "1.5",
        "nan",
        "inf",
        "-3",
        "0",
        "",
        "x",
        "1_000",
        "²",
        "++7",
        "18\x1c",
        "9" * 5000,
        None,
        MISSING,
        True,
        2.5,
        2**63,
        2.0**60,
        "9007199254740993.0",
    ],
)
def test_a_bad_whole_number_names_file_line_field_and_value(value):
    with pytest.raises(InputError) as caught:
        table(["7", value]).whole("n")
    assert (caught.value.where, caught.value.field, caught.value.value) == ("f.csv:3", "n", value)


@pytest.mark.parametrize("value", ["12", " 12 ", "12.0", 12, 12.0, "+12"])
def test_whole_numbers_are_read_however_they_are_written(value):
    assert table([value, "3"]).whole("n").tolist() == [12, 3]


@pytest.mark.parametrize("value", ["nan", "inf", "x", "", None, "-1", True, "1_0"])
def test_a_bad_number_is_refused(value):
    with pytest.raises(InputError, match=r"f\.csv:2: n is"):
        table([value]).number("n", low=0.0)


def test_a_float_array_with_a_fraction_is_no_column_of_whole_numbers():
    with pytest.raises(InputError, match=r"f\.csv:3: n is 1\.5"):
        table(np.array([1.0, 1.5])).whole("n")
    assert table(np.array([1.0, 2.0])).whole("n").dtype == np.int64


@pytest.mark.parametrize("value", [2**63 - 1, str(2**63 - 1)])
def test_whole_numbers_fit_a_column_beside_absent_ones_up_to_its_largest(value):
    assert table([value, None]).whole("n", 0, absent=0).tolist() == [2**63 - 1, 0]


def test_a_missing_value_stands_for_absent_where_that_is_allowed():
    assert table([3, None, MISSING]).whole("n", absent=-1, low=0).tolist() == [3, -1, -1]
    assert table([0.5, None]).number("n", absent=-1.0, low=0.0).tolist() == [0.5, -1.0]


def test_skipped_rows_are_counted_by_field_and_named_once():
    rows = table(["1", "x", "0", "4"], skip=True)
    rows.whole("n")
    rows.ascending("n", np.array([5, 1, 1, 2]))
    assert rows.good.tolist() == [0]
    assert rows.notes() == ("3 bad rows were skipped (n 3; the first in line 3).",)


def test_a_table_that_is_all_bad_or_empty_is_an_error():
    rows = table(["x"], skip=True)
    rows.whole("n")
    with pytest.raises(InputError, match="every row was skipped|Every row was skipped"):
        rows.require_rows()
    with pytest.raises(InputError, match="no request"):
        table([]).require_rows()


def test_a_fast_table_doubts_instead_of_naming():
    with pytest.raises(Doubt):
        table(np.array([1, 0]), fast=True).whole("n")


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30))
def test_what_is_left_after_skipping_times_that_go_back_is_in_order(times):
    rows = table([str(t) for t in times], skip=True)
    values = rows.number("n")
    rows.ascending("n", values)
    assert (np.diff(values[rows.good]) >= 0).all()
    assert rows.good[0] == 0


def test_codes_number_the_sorted_names():
    numbers, names = codes(["b", "a", "b"])
    assert (numbers.tolist(), names) == ([1, 0, 1], ("a", "b"))


def test_rows_without_a_session_are_in_none():
    assert session_numbers(table(["b", None, "a", MISSING, "b"]), "n").tolist() == [1, -1, 0, -1, 1]
    assert session_numbers(table([1, 2]), "other").tolist() == [-1, -1]
