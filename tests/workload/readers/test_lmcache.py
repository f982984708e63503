from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import lmcache


def test_the_formats_own_defects_are_mended_and_counted(samples):
    trace = lmcache.read(samples / "lmcache.jsonl")
    assert trace.arrival_s.tolist() == [0.0, 1.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0]
    assert trace.prompt_tokens.tolist() == [3, 5, 6, 1, 9, 1, 10, 3]
    text = " ".join(trace.notes)
    for said in (
        "characters / 4",
        "6 rows stood below",
        "1 row has an empty prompt",
        "2 of 10 rows have an empty output",
    ):
        assert said in text


def test_a_session_is_linked_past_its_empty_outputs(samples):
    trace = lmcache.read(samples / "lmcache.jsonl")
    assert trace.session.tolist() == [0, 1, 0, 2, 1, 2, 0, 2]
    assert trace.after.tolist() == [-1, -1, 0, -1, 1, 3, 2, 5]
    assert trace.think_s.tolist() == [0.0, 0.0, 3.0, 0.0, 4.0, 3.0, 5.0, 2.0]


def test_equal_prompts_have_equal_keys(write):
    line = '{{"timestamp": {}, "input": "{}", "output": "o", "session_id": "s"}}\n'
    trace = lmcache.read(write("x.jsonl", line.format(1, "a") + line.format(2, "b") + line.format(3, "a")))
    assert trace.prompt_key[0] == trace.prompt_key[2] != trace.prompt_key[1]
    assert (trace.prompt_key > 0).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"timestamp": "x", "input": "a", "output": "b"}', r"x\.jsonl:1: timestamp"),
        ('{"timestamp": 1, "input": 5, "output": "b"}', r"x\.jsonl:1: input is 5; expected text"),
        ('{"timestamp": 1, "input": "a", "output": ""}', "at least one good row"),
    ],
)
def test_what_is_no_defect_of_the_format_is_an_error(write, row, message):
    with pytest.raises(InputError, match=message):
        lmcache.read(write("x.jsonl", row + "\n"))
