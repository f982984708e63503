from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evenstep import Trace, read_trace
from evenstep.errors import InputError
from evenstep.workload.readers import columns

OWN = "arrival_s,prompt_tokens,output_tokens\n0.5,812,95\n0.9,64,310\n"
OTHERS = "ts,in,out,tenant\n2000,50,8,a\n1000,30,9,b\n"
NAMED = "columns:prompt=in,output=out,time=ts,unit=ms,request_class=tenant"


def test_our_own_field_names_are_recognised_with_their_times(write):
    trace = read_trace(write("own.csv", OWN))
    assert trace.format == "columns"
    assert trace.prompt_tokens.tolist() == [812, 64]
    assert trace.arrival_s.tolist() == pytest.approx([0.0, 0.4])


def test_any_names_in_any_unit_are_read_in_order_of_time(write):
    trace = read_trace(write("x.csv", OTHERS), NAMED)
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.prompt_tokens.tolist() == [30, 50]
    assert trace.request_class.tolist() == [1, 0]
    assert trace.notes == (
        "Request classes: 0 = a, 1 = b.",
        "1 row was not in order of time and was sorted.",
    )


def test_a_column_with_spaces_and_quotes_around_it_is_named_as_it_is(write):
    text = '"Request tokens","Response tokens","sent at"\n5,6,"2026-03-01 10:00:01.5"\n7,8,"2026-03-01 10:00:02"\n'
    form = "columns:prompt=Request tokens,output=Response tokens,time=sent at"
    assert read_trace(write("x.csv", text), form).arrival_s.tolist() == [0.0, 0.5]


def test_numbers_without_a_unit_are_seconds_and_that_is_said(write):
    trace = read_trace(write("x.csv", OTHERS), "columns:prompt=in,output=out,time=ts")
    assert trace.arrival_s.tolist() == [0.0, 1000.0]
    assert "Times in column 'ts' are read as seconds" in trace.notes[-1]


def test_requests_of_a_session_follow_each_other_by_their_gaps(samples):
    trace = read_trace(samples / "columns.csv")
    assert trace.session.tolist() == [1 - 1, -1, 1, 0, -1, 1, -1, 0, -1, 2]
    assert trace.after.tolist() == [-1, -1, -1, 0, -1, 2, -1, 3, -1, -1]
    assert trace.think_s[3] == pytest.approx(1.3)
    assert trace.max_tokens.tolist() == [256, 0, 64, 256, 0, 64, 512, 256, 0, 256]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("columns", "expected a column of prompt_tokens. Name it: --columns prompt=COLUMN"),
        ("columns:prompt=im,output=out", "expected a column 'im'. Did you mean in?"),
        ("columns:promt=in", "option is 'promt'; expected a known option. Did you mean prompt?"),
        ("columns:prompt=in,output=out,unit=min", "unit is 'min'; expected one of s, ms, us, ns"),
        ("columns:prompt=in,output=out,unit=ms", "unit is 'ms'; expected no unit without a column of times"),
        ("columns:prompt=in,output=out,time=tenant", r"x\.csv:2: tenant is 'a'; expected a finite number"),
        ("columns:prompt=tenant,output=out", r"x\.csv:2: tenant is 'a'; expected a whole number >= 1"),
    ],
)
def test_a_bad_column_or_unit_is_named(write, form, message):
    with pytest.raises(InputError, match=message):
        read_trace(write("x.csv", OTHERS), form)


def test_a_unit_with_dates_is_refused(write):
    path = write("x.csv", "t,in,out\n2026-03-01 10:00:00,1,2\n")
    with pytest.raises(InputError, match="unit is 'ms'; expected numbers in the column of times"):
        read_trace(path, "columns:prompt=in,output=out,time=t,unit=ms")
    later = write("y.csv", "t,in,out\n2026-03-01 10:00:00,1,2\nsoon,1,2\n")
    with pytest.raises(InputError, match=r"y\.csv:3: t is 'soon'; expected a finite number >= 0, or a time"):
        read_trace(later, "columns:prompt=in,output=out,time=t")


def test_a_csv_of_unknown_names_is_told_how_to_name_its_columns(write):
    with pytest.raises(InputError, match="--columns prompt=...,output=...,time=...,unit=ms"):
        read_trace(write("x.csv", OTHERS))


def test_a_bad_row_of_a_session_is_skipped_and_its_follower_follows_its_predecessor(write):
    text = "arrival_s,prompt_tokens,output_tokens,session\n0,5,5,a\n1,x,5,a\n3,5,5,a\n"
    trace = read_trace(write("x.csv", text), skip_bad_rows=True)
    assert trace.after.tolist() == [-1, 0]
    assert trace.think_s.tolist() == [0.0, 3.0]


AFTER = "arrival_s,prompt_tokens,output_tokens,session,after\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,5,5,a,-1\n1,5,5,a,7\n2,5,5,a,0\n", "after is '7'; expected the number of a row, 0 to 2, or -1"),
        ("0,5,5,a,-1\n1,5,5,a,1\n2,5,5,a,0\n", "after is '1'; expected a row above, or with times a row before it"),
        ("0,5,5,a,-1\n1,5,5,a,2\n2,5,5,a,0\n", "after is '2'; expected a row above, or with times a row before it"),
        ("0,5,5,a,-1\n1,5,5,b,0\n2,5,5,a,0\n", "after is '0'; expected a row of the same session"),
    ],
)
def test_a_row_that_cannot_follow_the_row_it_names_is_named_or_skipped(write, rows, message):
    """Such a row was an error with --skip-bad-rows, too, or an IndexError."""
    path = write("x.csv", AFTER + rows)
    with pytest.raises(InputError, match=rf"x\.csv:3: {message}"):
        read_trace(path)
    trace = read_trace(path, skip_bad_rows=True)
    assert (trace.arrival_s.tolist(), trace.after.tolist()) == ([0.0, 2.0], [-1, 0])


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ("0,5,5,a,1\n1,0,5,a,0\n2,5,5,a,0\n", [-1]),  # through the bad row it follows itself
        ("0,5,5,a,2\n1,5,5,a,0\nx,5,5,a,1\n", [-1]),
        ("0,5,5,a,-1\n1,5,0,b,0\n2,5,5,b,1\n3,5,5,a,0\n", [-1, 0]),  # through it, one of another session
    ],
)
def test_a_row_that_follows_a_skipped_one_is_judged_by_the_row_that_it_follows_then(write, rows, after):
    trace = read_trace(write("x.csv", AFTER + rows), skip_bad_rows=True)
    assert trace.after.tolist() == after


@pytest.mark.parametrize("circle", ["x,1,a,1\n5,1,a,1\n", "x,1,a,2\nx,1,a,1\n5,1,a,1\n"])
def test_skipped_rows_that_follow_each_other_lead_to_no_endless_search(write, circle):
    path = write("x.csv", "prompt_tokens,output_tokens,session,after\n5,1,a,-1\n" + circle)
    assert read_trace(path, skip_bad_rows=True).after.tolist() == [-1, -1]


def test_columns_in_memory_are_a_trace():
    trace = Trace.from_columns([5, 6], np.array([1.0, 2.0]), [1500, 500], unit="ms", session=["a", "a"])
    assert trace.prompt_tokens.tolist() == [6, 5] and trace.prompt_tokens.dtype == np.int64
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.after.tolist() == [-1, 0]
    with pytest.raises(InputError, match="prompt_tokens is"):
        Trace.from_columns(np.ma.array([10, 20], mask=[0, 1]), [1, 2])
    dated = Trace.from_columns([1, 2], [1, 2], np.array(["2026-01-01T00:00:01", "2026-01-01"], "M8[s]"))
    assert dated.arrival_s.tolist() == [0.0, 1.0]


@pytest.mark.filterwarnings("error")
def test_a_column_of_half_precision_is_read_without_a_warning():
    assert Trace.from_columns(np.array([1, 2], np.float16), [3, 4]).prompt_tokens.tolist() == [1, 2]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="a long double has no more digits than a double here")
def test_a_column_of_long_doubles_keeps_all_its_digits():
    assert Trace.from_columns(np.array([2**60 + 1, 3], np.longdouble), [3, 4]).prompt_tokens.tolist() == [2**60 + 1, 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt_tokens": [1, 0], "output_tokens": [1, 1]}, "Trace.from_columns:1: prompt_tokens is 0"),
        ({"prompt_tokens": [1.5], "output_tokens": [1]}, "prompt_tokens is 1.5; expected a whole number"),
        ({"prompt_tokens": [1], "output_tokens": [1, 1]}, "output_tokens is '2 values'; expected 1"),
        ({"prompt_tokens": [], "output_tokens": []}, "prompt_tokens is 'empty'"),
        ({"prompt_tokens": [[1]], "output_tokens": [1]}, "expected one value a request"),
        ({"prompt_tokens": [1], "output_tokens": [1], "sesion": [1]}, "Did you mean session"),
        ({"prompt_tokens": [1], "output_tokens": [1], "unit": "min"}, "unit is 'min'"),
        ({"prompt_tokens": [1], "output_tokens": [1], "arrival_s": [np.nan]}, "arrival_s is nan"),
        (
            {"prompt_tokens": [1], "output_tokens": [1], "arrival_s": np.array(["NaT"], "M8[s]")},
            "arrival_s is nan",
        ),
        ({"prompt_tokens": [1, 2**70], "output_tokens": [1, 1]}, "from_columns:1: .* a whole number >= 1. It is too large"),
        ({"prompt_tokens": [1.0, 1e30], "output_tokens": [1, 1]}, "expected a whole number >= 1. It is too large"),
        ({"prompt_tokens": [1], "output_tokens": [1], "arrival_s": ["2024-01-01"]}, "or a time such as 2026-03-01 18:"),
    ],
)
def test_columns_in_memory_that_do_not_fit_are_one_clear_error(given, message):
    with pytest.raises(InputError, match=message):
        Trace.from_columns(**given)


@pytest.mark.parametrize(
    "session",
    [
        ["a", np.nan, np.nan, "a", np.nan],
        np.array(["a", np.nan, None, "a", np.nan], object),
        [5.0, np.nan, np.nan, 5.0, np.nan],
        pd.Series(["a", pd.NA, pd.NaT, "a", None], dtype=object),
        pd.Series([5, None, pd.NA, 5, None], dtype="Int64"),
    ],
)
def test_rows_without_a_session_in_memory_are_in_none(session):
    trace = Trace.from_columns([10] * 5, [50] * 5, [0.0, 1.0, 2.0, 3.0, 4.0], session=session)
    grouped = np.where(trace.session == trace.session[0], 0, trace.session)
    assert grouped.tolist() == [0, -1, -1, 0, -1]
    assert trace.after.tolist() == [-1, -1, -1, 0, -1]


@pytest.mark.parametrize(
    "caps",
    [
        [np.int64(5), None],
        np.array([np.int32(5), None], object),
        np.ma.array([5, 9], mask=[False, True]),
    ],
)
def test_a_missing_number_among_numpy_numbers_is_no_cap(caps):
    assert Trace.from_columns([1, 2], [3, 4], max_tokens=caps).max_tokens.tolist() == [5, 0]


def test_a_missing_number_in_an_array_of_pandas_is_no_cap():
    caps = pytest.importorskip("pandas").array([5, None], "Int64")
    assert Trace.from_columns([1, 2], [3, 4], max_tokens=caps).max_tokens.tolist() == [5, 0]


def test_nan_in_memory_is_no_cap_and_no_length():
    assert Trace.from_columns([1, 2], [3, 4], max_tokens=[5.0, np.nan]).max_tokens.tolist() == [5, 0]
    with pytest.raises(InputError, match="from_columns:1: prompt_tokens is None"):
        Trace.from_columns([1, np.nan], [3, 4])


def test_a_file_of_lengths_alone_stays_one(write):
    assert not columns.recognises(b"prompt_tokens,output_tokens\n1,2\n", "x.csv")
    assert columns.recognises(b"prompt_tokens,output_tokens,max_tokens\n1,2,3\n", "x.csv")
    assert read_trace(write("x.csv", "prompt_tokens,output_tokens,max_tokens\n1,2,3\n")).max_tokens.tolist() == [3]


def test_the_columns_are_copies_that_can_be_written(write):
    given = np.array([5, 6])
    assert not np.shares_memory(Trace.from_columns(given, given).prompt_tokens, given)
    assert read_trace(write("own.csv", OWN)).prompt_tokens.flags.writeable


@pytest.mark.parametrize("form", [None, "columns", "columns:prompt=in,output=out", "azure"])
@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_another_separator_is_named(write, form, mark, name):
    with pytest.raises(InputError, match=f"The columns are separated by {name}; separate them by commas"):
        read_trace(write("x.csv", OWN.replace(",", mark)), form)


def test_columns_without_lengths_are_refused():
    for given in ({"prompt_tokens": [1], "output_tokens": None}, {"prompt_tokens": None, "output_tokens": [1]}):
        with pytest.raises(InputError, match=r"Trace\.from_columns: (prompt|output)_tokens is 'missing'"):
            Trace.from_columns(**given)


DATES = "prompt,output,arrival_s\n50,8,{}\n30,9,2026-03-01 10:00:01\n40,9,2026-03-01 10:00:02.5\n"


@pytest.mark.parametrize("cell", ["soon", "", "2026-13-01 10:00:00"])
def test_a_bad_time_in_the_first_row_costs_that_row_alone(write, cell):
    """All the other rows were skipped with it, as dates in a column of numbers."""
    path = write("x.csv", DATES.format(cell))
    trace = read_trace(path, skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 1.5]
    assert trace.notes == ("1 bad row was skipped (arrival_s 1; the first in line 2).",)
    with pytest.raises(InputError, match=r"x\.csv:2: arrival_s is '.*'; expected a finite number >= 0, or a time such as"):
        read_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        '"what, and why",in,out,ts\nx,50,8,2026-03-01 10:00:01\ny,30,9,2026-03-01 10:00:02.5\n',
        'what,in,out,ts\n"two\nlines",50,8,2026-03-01 10:00:01\ny,30,9,2026-03-01 10:00:02.5\n',
        '"two\nlines",in,out,ts\nx,50,8,2026-03-01 10:00:01\ny,30,9,2026-03-01 10:00:02.5\n',
    ],
)
def test_a_comma_or_a_newline_inside_quotes_does_not_hide_the_dates(write, text):
    trace = read_trace(write("x.csv", text), "columns:prompt=in,output=out,time=ts")
    assert trace.arrival_s.tolist() == [0.0, 1.5]
    assert trace.notes == ()


def test_a_cell_may_hold_the_text_of_a_long_prompt(write):
    """Python's reader of CSV files stops at 131,072 characters by default."""
    text = f'text,in,out,ts\n"{"word " * 40_000}",50,8,0\nshort,30,9,1\nshort,-1,9,2\n'
    trace = read_trace(write("x.csv", text), "columns:prompt=in,output=out,time=ts", skip_bad_rows=True)
    assert trace.prompt_tokens.tolist() == [50, 30]


EPOCH = 1_772_359_201_000_000_000


@pytest.mark.parametrize("last", ["", "60,9,soon\n"])
def test_nanoseconds_since_1970_keep_all_their_digits(write, last):
    text = f"in,out,ts\n50,8,{EPOCH + 1}\n30,9,{EPOCH + 8}\n40,9,{EPOCH + 100}\n{last}"
    trace = read_trace(write("x.csv", text), "columns:prompt=in,output=out,time=ts,unit=ns", skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 7e-9, 99e-9]


def test_milliseconds_since_1970_keep_all_their_digits(write):
    times = [1_772_359_201_123, 1_772_359_201_023, 1_772_359_201_999.5]
    path = write("x.csv", "in,out,ts\n" + "".join(f"1,1,{time}\n" for time in times))
    assert read_trace(path, "columns:prompt=in,output=out,time=ts,unit=ms").arrival_s.tolist() == [0.0, 0.1, 0.9765]
    assert Trace.from_columns([1] * 3, [1] * 3, times, unit="ms").arrival_s.tolist() == [0.0, 0.1, 0.9765]


@pytest.mark.parametrize("kind", [list, np.int64, np.uint64])
def test_nanoseconds_in_memory_keep_all_their_digits(kind):
    times = [EPOCH + 1, EPOCH + 8, EPOCH + 100]
    given = times if kind is list else np.array(times, kind)
    trace = Trace.from_columns(prompt_tokens=[1, 2, 3], output_tokens=[1, 2, 3], arrival_s=given, unit="ns")
    assert trace.arrival_s.tolist() == [0.0, 7e-9, 99e-9]


def test_rows_that_stand_below_a_later_one_are_counted_and_no_others(write):
    text = "prompt,output,arrival_s\n1,1,9\n" + "".join(f"1,1,{n}\n" for n in (10, 1, 11, 12, 13))
    assert read_trace(write("x.csv", text)).notes == ("1 row was not in order of time and was sorted.",)


@pytest.mark.parametrize(("column", "shown"), [([1, [2]], r"\[2\]"), ([[1], [2, 3]], r"\[1\]")])
def test_a_list_inside_a_column_in_memory_is_named(column, shown):
    with pytest.raises(InputError, match=rf"prompt_tokens is {shown}; expected a whole number >= 1"):
        Trace.from_columns(prompt_tokens=column, output_tokens=[1, 2])


@pytest.mark.parametrize(
    ("unit", "times"), [("s", "7,9"), ("ms", "7000,9000"), ("us", "7000000,9000000"), ("ns", "7e9,9e9")]
)
def test_a_second_has_as_many_of_each_unit_as_it_should(write, unit, times):
    first, second = times.split(",")
    path = write("x.csv", f"ts,in,out\n{first},1,1\n{second},1,1\n")
    trace = read_trace(path, f"columns:prompt=in,output=out,time=ts,unit={unit}")
    assert trace.arrival_s.tolist() == [0.0, 2.0]
    given = [float(first), float(second)]
    assert Trace.from_columns([1, 1], [1, 1], given, unit=unit).arrival_s.tolist() == [0.0, 2.0]


def test_times_too_large_for_whole_numbers_of_64_bits_are_read_as_floats(write):
    path = write("x.csv", f"ts,in,out\n{2**63},1,1\n{2**63 + 10**12},1,1\n")
    trace = read_trace(path, "columns:prompt=in,output=out,time=ts,unit=ns")
    assert trace.arrival_s.tolist() == pytest.approx([0.0, 1000.0], abs=1e-5)


SESSIONS = "prompt_tokens,output_tokens,session,think_s\n1,1,{},0\n1,1,,0.25\n1,1,-1,\n1,1,3,2\n1,1,{},0.5\n"


def test_a_session_that_is_a_number_keeps_it_and_names_are_numbered(write):
    numbers, names = (read_trace(write("x.csv", SESSIONS.format(one, one))) for one in ("7", "a"))
    assert numbers.session.tolist() == [7, -1, -1, 3, 7]
    assert names.session.tolist() == [1, -1, -1, 0, 1]
    for trace in (numbers, names):  # think times of the file stay, and none are made of times that it lacks
        assert trace.after.tolist() == [-1, -1, -1, -1, 0]
        assert trace.think_s.tolist() == [0.0, 0.25, 0.0, 2.0, 0.5]
    plain = read_trace(write("y.csv", "prompt_tokens,output_tokens,session\n1,1,4\n1,1,4\n"))
    assert (plain.after.tolist(), plain.think_s) == ([-1, 0], None)


def test_a_class_of_up_to_15_digits_keeps_its_number(write):
    for text, kept in (("999999999999999", 999_999_999_999_999), ("1000000000000000", 0)):
        path = write("x.csv", f"prompt_tokens,output_tokens,request_class\n1,1,{text}\n")
        assert read_trace(path).request_class.tolist() == [kept]
