from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import burstgpt

HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_failed_rows_are_dropped_and_counted(samples):
    trace = burstgpt.read(samples / "burstgpt.csv")
    assert len(trace) == 8
    assert "2 of 10 rows have 0 tokens (failed requests) and were dropped." in trace.notes
    assert trace.request_class.tolist() == [0, 1, 0, 1, 0, 1, 0, 0]


def test_a_session_follows_itself_past_its_failed_request(samples):
    trace = burstgpt.read(samples / "burstgpt_sessions.csv")
    assert trace.session.tolist() == [0, 1, 0, -1, 1, 0, 2, 1, -1]
    assert trace.after.tolist() == [-1, -1, 0, -1, 1, 2, -1, 4, -1]
    assert trace.think_s.tolist() == [
        0,
        0,
        (110 - 100 - 4) + (120 - 110 - 2),
        0,
        130 - 102 - 1,
        131 - 120 - 5,
        0,
        150 - 130 - 2,
        0,
    ]


def test_times_begin_with_the_first_request_that_did_not_fail(write):
    trace = burstgpt.read(write("x.csv", HEADER + "5,a,0,0,0,x\n8,a,1,1,2,x\n9,a,1,1,2,x\n"))
    assert trace.arrival_s.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("5,a,-1,2,1,x\n", r"x\.csv:2: Request tokens is '-1'"),
        ("5,a,1,2.5,1,x\n", r"x\.csv:2: Response tokens is '2\.5'"),
        ("5,a,1,2,3,x\n4,a,1,2,3,x\n", r"x\.csv:3: Timestamp is '4'"),
        ("5,a,0,0,0,x\n", "at least one good row"),
    ],
)
def test_what_is_no_failure_is_an_error(write, rows, message):
    with pytest.raises(InputError, match=message):
        burstgpt.read(write("x.csv", HEADER + rows))
