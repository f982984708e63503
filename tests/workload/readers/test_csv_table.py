from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.workload.readers import csv_table

FIELDS = {"a": pa.int64(), "b": pa.int64()}


def parse(path, *, skip=False, seen=None):
    def build(table):
        if seen is not None:
            seen.append(table.lines is None)
        a, b = table.whole("a"), table.whole("b")
        table.require_rows()
        return Trace(a[table.good], b[table.good], notes=table.notes())

    return csv_table.parse(path, FIELDS, build, skip_bad_rows=skip)


def test_a_clean_file_is_read_in_one_fast_pass(write):
    seen: list[bool] = []
    trace = parse(write("a.csv", "x,b,a\n9,2,1\n9,4,3\n"), seen=seen)
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), seen) == ([1, 3], [2, 4], [True])


@pytest.mark.parametrize("text", ["\ufeffa,b\n1,2\n", "a,b\r\n1,2\r\n", "a,b\n1,2", 'a,b\n"1",2\n', "a,b\n1.0,2\n"])
def test_common_ways_of_writing_give_the_same_trace(write, text):
    trace = parse(write("a.csv", text))
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([1], [2])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3", r"a\.csv:3: row is '1 column'; expected 2 columns"),
        ("3,4,5", r"a\.csv:3: row is '3 columns'"),
        ("0x10,4", r"a\.csv:3: a is '0x10'; expected a whole number"),
        ("", r"a\.csv:3: row is 'a blank line'"),
        ("3,x", r"a\.csv:3: b is 'x'; expected a whole number >= 1"),
        ("-3,4", r"a\.csv:3: a is '-3'"),
        ("3,0", r"a\.csv:3: b is '0'"),
        ("3,1.5", r"a\.csv:3: b is '1\.5'"),
        ("3,nan", r"a\.csv:3: b is 'nan'"),
    ],
)
def test_a_bad_row_is_named_or_skipped_and_counted(write, row, message):
    path = write("a.csv", f"a,b\n1,2\n{row}\n5,6\n")
    with pytest.raises(InputError, match=message):
        parse(path)
    trace = parse(path, skip=True)
    assert trace.prompt_tokens.tolist() == [1, 5]
    assert "1 bad row was skipped" in trace.notes[0]


@pytest.mark.parametrize("text", ["a,b\n", "a,b"])
def test_a_header_alone_is_an_error(write, text):
    with pytest.raises(InputError, match=r"a\.csv: rows is 0"):
        parse(write("a.csv", text))


def test_a_missing_column_offers_the_nearest(write):
    with pytest.raises(InputError, match="Did you mean bb"):
        parse(write("a.csv", "a,bb\n1,2\n"))


def test_a_column_that_is_there_twice_is_refused_if_it_is_needed(write):
    with pytest.raises(InputError, match="header is 'a,b,b'; expected one column 'b'. Rename or delete the others"):
        parse(write("a.csv", "a,b,b\n1,2,3\n"))
    assert parse(write("b.csv", "a,x,b,x\n1,9,2,9\n")).output_tokens.tolist() == [2]


def test_binary_content_is_an_error(write):
    with pytest.raises(InputError, match="bytes"):
        parse(write("a.csv", b"a,b\n1,2\n\x00\x01,3\n"))


def test_spaces_around_a_column_name_do_not_matter(write):
    assert parse(write("a.csv", "a, b\n1,2\n")).output_tokens.tolist() == [2]


def test_a_quote_without_its_end_in_the_header_is_one_line_of_error(write):
    with pytest.raises(InputError, match="expected a column 'b'") as error:
        parse(write("a.csv", 'a,"b\n1,2\n'))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b,x\n1,2,c\n3,4,"d\n5,6,e\n7,8,f\n', 3),
        ('a,b,x\n1,2,"d\n5,6,e\n', 2),
        ('a,b,x\n1,2,"c\nc"\n3,4,"d\n5,6,e', 4),
        ('a,b,"x\n1,2,c\n', 1),
    ],
)
def test_a_quote_that_is_never_closed_does_not_swallow_the_rows_below(write, text, line, skip):
    """The rows below were part of a cell that no reader needs, so the trace was short and nothing said so."""
    with pytest.raises(InputError, match=f"a.csv:{line}: row is 'damaged'.*A quote is never closed"):
        parse(write("a.csv", text), skip=skip)


def test_quotes_inside_of_unquoted_cells_are_plain_letters(write):
    assert parse(write("a.csv", 'a,b,x\n1,2,5" disk\n3,4,"a ""b"""\n')).output_tokens.tolist() == [2, 4]


def test_a_file_is_read_without_pandas(samples):
    """pyarrow's `to_numpy` imports it where it is installed: half a second, in which Ctrl-C was lost."""
    code = "import sys; from evenstep import read_trace; read_trace(sys.argv[1]); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, samples / "azure.csv"], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
