from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import vllm_log


def test_rows_are_sorted_by_arrival_and_that_is_said(samples):
    trace = vllm_log.read(samples / "vllm_log.jsonl")
    assert trace.arrival_s.tolist() == [0.0, 0.25, 1.0, 1.5, 2.0, 2.25, 3.0, 4.5, 5.0, 6.0]
    assert trace.prompt_tokens[2:4].tolist() == [9, 64]
    assert trace.notes == ("1 row stood below a later arrival; the rows were sorted by arrival.",)


def test_a_row_without_an_arrival_is_named(samples, write):
    text = (samples / "vllm_log.jsonl").read_text().replace('"arrival_time": 1001.5, ', "")
    with pytest.raises(InputError, match=r"x\.jsonl:3: arrival_time is missing"):
        vllm_log.read(write("x.jsonl", text))
