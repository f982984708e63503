from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import lengths


def test_a_length_list_has_no_times_and_says_so(samples):
    trace = lengths.read(samples / "lengths.csv")
    assert trace.arrival_s is None
    assert trace.prompt_tokens[:2].tolist() == [10, 300]
    assert "no arrival times" in trace.notes[-1]


@pytest.mark.parametrize(
    "text", ["7,3\n9,1\n", "prompt,output\n7,3\n9,1\n", "Output_Tokens,id,Input_Tokens\n3,a,7\n1,b,9\n"]
)
def test_any_two_columns_will_do(write, text):
    path = write("x.csv", text)
    assert lengths.recognises(path.read_bytes(), "x.csv")
    trace = lengths.read(path)
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([7, 9], [3, 1])


def test_a_file_with_times_is_not_a_length_list():
    assert not lengths.recognises(b"timestamp,prompt,output\n1,2,3\n", "x.csv")


def test_a_bad_length_is_named(write):
    with pytest.raises(InputError, match=r"x\.csv:2: output_tokens is '0'"):
        lengths.read(write("x.csv", "7,3\n9,0\n"))
    with pytest.raises(InputError, match="a prompt and an output column"):
        lengths.read(write("y.csv", "a,b\n1,2\n"))


def test_two_bare_columns_may_begin_with_a_byte_order_mark(write):
    for skip, text in ((False, "\ufeff5,6\n7,8\n"), (True, "\ufeff5,6\nx,2\n7,8\n")):
        trace = lengths.read(write("x.csv", text), skip_bad_rows=skip)
        assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([5, 7], [6, 8])
