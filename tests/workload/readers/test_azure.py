from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import azure

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_times_of_2023_count_from_the_first_row(samples):
    trace = azure.read(samples / "azure.csv")
    assert trace.arrival_s.tolist() == [0.0, 0.25, 0.75, 0.75, 2.8734567, 3.75, 7.5, 7.75, 8.25, 11.0]
    assert (trace.prompt_tokens[0], trace.output_tokens[-1], trace.notes) == (120, 25, ())


def test_times_of_2024_may_lack_their_fraction(samples):
    trace = azure.read(samples / "azure_2024.csv")
    assert trace.arrival_s[:3].tolist() == [0.0, 0.498837, 0.998837]


def test_times_without_seconds_are_read_beside_a_bad_row_too(write):
    text = f"{HEADER}2024-05-12 00:00,1,2\n2024-05-12 00:01,3,4\n"
    assert azure.read(write("x.csv", text)).arrival_s.tolist() == [0.0, 60.0]
    assert azure.read(write("y.csv", f"{text}?,1,1\n"), skip_bad_rows=True).arrival_s.tolist() == [0.0, 60.0]


def test_a_bad_row_elsewhere_changes_no_good_row(samples, write):
    """The slow pass, which a bad row brings on, reads what the fast pass reads."""
    for name in ("azure.csv", "azure_2024.csv"):
        text = (samples / name).read_text()
        fast, slow = (
            azure.read(samples / name),
            azure.read(write("x.csv", text + "?,1,1\n"), skip_bad_rows=True),
        )
        assert np.array_equal(fast.arrival_s, slow.arrival_s)
        assert np.array_equal(fast.prompt_tokens, slow.prompt_tokens)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2023-13-40 00:00:02,5,5", r"x\.csv:3: TIMESTAMP is '2023-13-40 00:00:02'; expected a time"),
        ("yesterday,5,5", r"x\.csv:3: TIMESTAMP is 'yesterday'"),
        (",5,5", r"x\.csv:3: TIMESTAMP is ''"),
        (
            "2023-01-01 00:00:00,5,5",
            r"x\.csv:3: TIMESTAMP is '2023-01-01 00:00:00'; expected a time not before",
        ),
        ("2023-01-01 00:00:02,-5,5", r"x\.csv:3: ContextTokens is '-5'"),
        ("2023-01-01 00:00:02,5,0", r"x\.csv:3: GeneratedTokens is '0'"),
        ("2023-01-01 00:00:02,5.5,5", r"x\.csv:3: ContextTokens is '5\.5'"),
        ("2023-01-01 00:00:02,5,NaN", r"x\.csv:3: GeneratedTokens is 'NaN'"),
        ("2023-01-01 00:00:02,5", r"x\.csv:3: row is '2 columns'"),
        ("", r"x\.csv:3: row is 'a blank line'"),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_bad_row_is_named_or_skipped_and_counted(write, row, message, name):
    path = write(name, f"{HEADER}2023-01-01 00:00:01,3,4\n{row}\n2023-01-01 00:00:03.5,6,7\n")
    with pytest.raises(InputError, match=message.replace(r"x\.csv", name.replace(".", r"\."))):
        azure.read(path)
    trace = azure.read(path, skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 2.5]
    assert "1 bad row was skipped" in trace.notes[0]


def test_the_date_that_the_documentation_gets_wrong_is_said(write):
    trace = azure.read(write("x.csv", f"{HEADER}2023-11-16 18:15:46.6805900,374,44\n"))
    assert "11 November" in trace.notes[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01 00:00:01.5", 1_500_000_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456_789),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01 00:01", 60_000_000_000),
        ("1970-01-01 01:01+01:00", 60_000_000_000),
        ("1970-01-01 00:01.5", None),
        ("1970-01-01 00:00:00.1234567891", None),
        ("1970-02-30 00:00:00", None),
        ("9023-11-16 18:15:46", None),
        ("1969-12-31 23:59:59", None),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text, expected):
    assert azure.nanoseconds(text) == expected
