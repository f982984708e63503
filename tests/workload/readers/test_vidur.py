from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import vidur


def test_columns_are_taken_as_they_are(samples):
    trace = vidur.read(samples / "vidur.csv")
    assert trace.arrival_s[:4].tolist() == [0.0, 0.25, 0.5, 1.75]
    assert trace.output_tokens[1] == 90


def test_times_out_of_order_are_an_error(write):
    path = write("x.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n2.0,1,1\n1.5,1,1\n")
    with pytest.raises(InputError, match=r"x\.csv:3: arrived_at is '1\.5'; expected a time not before"):
        vidur.read(path)


@pytest.mark.parametrize("time", ["nan", "-1.0", "inf", "soon"])
def test_a_time_that_is_none_is_an_error(write, time):
    path = write("x.csv", f"arrived_at,num_prefill_tokens,num_decode_tokens\n{time},1,1\n")
    with pytest.raises(InputError, match=r"x\.csv:2: arrived_at"):
        vidur.read(path)
