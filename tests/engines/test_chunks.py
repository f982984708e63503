"""Chunks as far as they are read."""

from __future__ import annotations

import pytest

from evenstep.engines.streams.chunks import is_given, read_chunk, read_head
from evenstep.errors import EngineError

CHAT = (
    b'{"id":"chatcmpl-7","object":"chat.completion.chunk","created":1763766000,"model":"tiny","choices":[{"index":1,'
    b'"delta":{"content":"a\\u00e9"},"logprobs":null,"finish_reason":"stop","stop_reason":128001,"token_ids":[5,6]}],'
    b'"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}'
)


def test_what_counts_is_read():
    chunk = read_chunk(CHAT)
    (choice,) = chunk.choices
    assert (choice.index, choice.content, choice.finish_reason, choice.stop_reason) == (
        1,
        "aé",
        "stop",
        128001,
    )
    assert choice.token_ids == [5, 6]
    assert (chunk.usage.prompt_tokens, chunk.usage.completion_tokens) == (7, 2)
    assert chunk.error is None
    head = read_head(CHAT)
    assert (bytes(head.id), bytes(head.created), bytes(head.model)) == (
        b'"chatcmpl-7"',
        b"1763766000",
        b'"tiny"',
    )
    assert not is_given(head.system_fingerprint)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>",
        b'{"choices":',
        b'{"choices":[{"index":"x"}]}',
        b"[]",
        b'{"choices":[{"text":"\xff"}]}',
        b'{"choices":[{"text":"a","nobody_reads_it":"\xff"}]}',
        b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":100000000000000000}}',
        b'{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1}}',
        b"",
        b"[" * 100_000,
    ],
)
def test_what_is_no_chunk_is_the_engines_error(data):
    with pytest.raises(EngineError, match="cannot be read"):
        read_chunk(data)


def test_tools_and_reasoning_are_more_than_text():
    def others(delta: bytes) -> bool:
        return read_chunk(b'{"choices":[{"delta":' + delta + b"}]}").choices[0].others

    assert others(b'{"tool_calls":[{"index":0}]}')
    assert others(b'{"reasoning_content":"hm"}')
    assert others(b'{"reasoning":"hm"}')
    assert not others(b'{"content":"a","tool_calls":[],"function_call":null,"reasoning_content":null}')
