"""Counts of an answer that two engines gave."""

from __future__ import annotations

from evenstep.engines.streams.usage import SoFar, joined, rewritten

BEFORE = SoFar(b'"cmpl-1"', b"17", 5, 3, b"", (), "abc", True)


def test_what_was_produced_before_is_output_and_not_prompt():
    usage = b'{"prompt_tokens":8,"total_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}'
    assert joined(usage, BEFORE) == (
        b'{"prompt_tokens":5,"total_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}'
    )


def test_a_prompt_nobody_told_is_what_is_left():
    unknown = SoFar(b"", b"", -1, 3, b"", (), "abc", True)
    assert joined(b'{"prompt_tokens":8,"completion_tokens":null}', unknown) == (
        b'{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}'
    )


def test_a_prompt_that_was_told_is_not_counted_again():
    usage = b'{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}'  # the next engine counts a token more
    assert joined(usage, BEFORE) == b'{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}'


def test_a_chunk_gets_the_id_and_the_time_the_client_knows():
    chunk = b'{"id":"cmpl-9","object":"o","created":20,"choices":[],"usage":null}'
    assert rewritten(chunk, BEFORE) == b'{"id":"cmpl-1","object":"o","created":17,"choices":[],"usage":null}'
    fresh = SoFar(b"", b"", -1, 0, b"", (), "", True)
    assert rewritten(chunk, fresh) == chunk
    bare = b'{"object":"o","choices":[]}'  # an engine that tells neither id nor time
    assert rewritten(bare, BEFORE) == bare
