"""Whole answers read by compiled code: the same counts as `read_answer` finds, or nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from evenstep.engines.answers import read_answer
from evenstep.engines.answers_kernel import read_whole

CHOICE = {"index": 0, "text": "a word", "logprobs": None, "finish_reason": "stop", "stop_reason": None}
USAGE = {"prompt_tokens": 7, "total_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": None}
ANSWER = {"id": "x", "object": "text_completion", "created": 5, "choices": [CHOICE], "usage": USAGE}


def found(body):
    data = np.frombuffer(b"  " + body, np.uint8)
    return tuple(map(int, read_whole(data, 2, data.size)))


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls"])
@pytest.mark.parametrize("details", [None, {"cached_tokens": 5}, {"cached_tokens": None}])
@pytest.mark.parametrize("indent", [None, 1])
def test_an_answer_as_most_are_is_read(reason, details, indent):
    choices = [CHOICE | {"finish_reason": reason, "stop_reason": 17}, CHOICE | {"index": 1}]
    told = ANSWER | {"choices": choices, "usage": USAGE | {"prompt_tokens_details": details}}
    separators = (",", ":") if indent is None else None
    assert found(json.dumps(told, indent=indent, separators=separators).encode()) == ((7, 3) if not details or not indent else (-1, -1))  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"error": None}, {"error": {"message": "x"}}, {"choices": []}, {"choices": None}, {"choices": {}}, {"usage": None},
        {"choices": [CHOICE | {"finish_reason": None}]}, {"choices": [CHOICE | {"finish_reason": "abort"}]},
        {"choices": [CHOICE | {"finish_reason": "recomputed"}]}, {"choices": [CHOICE | {"stop_reason": "recomputed"}]},
        {"choices": [CHOICE, {"index": 1}]}, {"usage": USAGE | {"prompt_tokens": "7"}}, {"usage": USAGE | {"prompt_tokens": -7}},
        {"usage": USAGE | {"completion_tokens": 3.0}}, {"usage": USAGE | {"completion_tokens": 2**24 + 1}},
        {"usage": USAGE | {"prompt_tokens": 10**14}}, {"usage": {}}, {"usage": USAGE | {"prompt_tokens_details": [1]}},
    ],
)  # fmt: skip
def test_an_answer_that_says_anything_else_is_left_to_others(more):
    told = json.dumps(ANSWER | more).encode()
    assert min(found(told)) < 0


def test_a_member_that_is_there_twice_or_written_otherwise_is_left_to_others():
    told = json.dumps(ANSWER)
    for before, after in (
        ('"usage": {', '"usage": {}, "usage": {'), ('"choices": [', '"choices": [], "choices": ['),
        ('"usage": {', '"us\\u0061ge": {'), ('"prompt_tokens": 7', '"prompt_tokens": 7, "prompt_tokens": 8'),
        ('"stop_reason": null', '"stop_reason": null{'), ('_details": null', '_details": null{'), ('"created": 5', '"created": 5 {'),
        ('"finish_reason": "stop"', '"finish_reason": "stop", "finish_reason": "abort"'),
    ):  # fmt: skip
        assert before in told
        assert min(found(told.replace(before, after).encode())) < 0


@examples(400)
@given(st.data())
def test_what_is_read_of_bytes_that_were_meddled_with_is_what_the_reader_of_all_finds(data):
    told = bytearray(json.dumps(ANSWER, separators=(",", ":")).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(told) - 1))
        told[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from(
                [b"", b'"', b"1", b",", b"}", b"{", b"]", b":", b"null", b"\\", b"e", b"0", b'"usage":', b" "]
            )
        )
    prompt, output = found(bytes(told))
    if prompt >= 0 and output >= 0:
        answer = read_answer(bytes(told))
        assert (answer.prompt_tokens, answer.produced, answer.recomputed) == (prompt, output, False)
