"""The least an engine can be."""

from __future__ import annotations

from evenstep.engines.dialects.openai import OpenAI


def test_nothing_is_expected_of_it():
    assert OpenAI().samples(b"anything") == ()
    assert not OpenAI().dialect.counts and OpenAI().dialect.finish_reasons
    assert not OpenAI(finish_reasons=False).dialect.finish_reasons
