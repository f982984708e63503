"""Answers that do not stream."""

from __future__ import annotations

import pytest

from evenstep.engines.streams.answers import Answer, read_answer, read_prefilled
from evenstep.errors import EngineError

USAGE = b'"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}'
GOOD = b'{"id":"1","choices":[{"index":0,"text":"a","finish_reason":"stop"}],' + USAGE + b"}"


def test_a_good_answer_is_counted():
    assert read_answer(GOOD) == Answer(7, 3, False)
    assert read_answer(b'{"choices":[{"finish_reason":"stop"}]}') == Answer(-1, -1, False)
    assert read_answer(b'{"choices":[{"text":"a"}]}', finish_reasons=False) == Answer(-1, -1, False)


@pytest.mark.parametrize(
    ("usage", "prompt", "produced"),
    [
        (b"{}", -1, -1),
        (b'{"prompt_tokens":7}', 7, -1),
        (b'{"prompt_tokens":7,"completion_tokens":null}', 7, -1),
        (b'{"completion_tokens":0}', -1, 0),
    ],
)
def test_a_count_that_usage_lacks_is_not_0(usage, prompt, produced):
    body = b'{"choices":[{"finish_reason":"stop"}],"kv_transfer_params":{},"usage":' + usage + b"}"
    assert read_answer(body) == Answer(prompt, produced, False)
    assert read_prefilled(body)[0] == prompt


def test_recomputed_is_no_failure():
    assert read_answer(b'{"choices":[{"stop_reason":"recomputed"}]}').recomputed


def test_recomputed_is_an_end_where_it_is_a_stop_string_of_the_client():
    end = b'{"choices":[{"finish_reason":"stop","stop_reason":"recomputed"}]}'
    assert not read_answer(end, hands_back=False).recomputed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        GOOD[:-1],
        b'{"error":{"message":"x"}}',
        b'{"choices":[]}',
        b"{}",
        b'{"choices":[{"finish_reason":null}]}',
        b'{"choices":[{"finish_reason":"abort"}]}',
        b"[" * 100_000,
        GOOD.replace(b'"a"', b'"\xff"'),
        GOOD.replace(b'"a"', b'"\xed\xa0\x80"'),
        GOOD.replace(b":3,", b":-3,"),
        GOOD.replace(b":3,", b":99999999999999,"),
        GOOD.replace(b":7,", b":99999999,"),
    ],
)
def test_a_bad_answer_is_the_engines_error(body):
    with pytest.raises(EngineError):
        read_answer(body)


def test_a_prefill_answer_hands_its_object_over_unread():
    handover = b'{"remote_block_ids": [[1]], "x": "\\u00e9"}'
    assert read_prefilled(GOOD[:-1] + b',"kv_transfer_params": ' + handover + b"}") == (7, handover)


def test_a_prefill_answer_without_one_is_the_engines_error():
    for body in (GOOD, GOOD[:-1] + b',"kv_transfer_params":null}'):
        with pytest.raises(EngineError, match="kv_transfer_params"):
            read_prefilled(body)
