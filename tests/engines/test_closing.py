"""The end of an answer, told in the engine's place."""

from __future__ import annotations

import dataclasses
import json

import pytest

from evenstep.engines.streams.chunks import Head
from evenstep.engines.streams.closing import closing, usage_event
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import Dialect, UsageOptions

BEFORE = SoFar(b'"cmpl-1"', b"17", 5, 3, b"", (), "abc", True)


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("usage", [True, False])
def test_the_end_is_one_our_own_reader_takes_for_complete(chat, usage):
    events = closing(BEFORE, chat=chat, model="m", usage=usage)
    reply = ReplyStream(Dialect(), chat=chat, client=UsageOptions(usage), engine=UsageOptions(usage))
    assert reply.feed(events) == events
    assert reply.done and reply.failure is None
    chunks = [json.loads(event[6:]) for event in events.split(b"\n\n")[:-2]]
    assert {(c["id"], c["created"], c["model"]) for c in chunks} == {("cmpl-1", 17, "m")}
    assert chunks[0]["choices"][0]["finish_reason"] == "length"
    assert {c["object"] for c in chunks} == {"chat.completion.chunk" if chat else "text_completion"}
    assert chunks[0]["choices"][0].get("delta") == ({} if chat else None)
    assert chunks[0]["choices"][0].get("text") == (None if chat else "")
    if usage:
        assert chunks[1]["usage"] == {"prompt_tokens": 5, "total_tokens": 8, "completion_tokens": 3}
    else:
        assert len(chunks) == 1


@pytest.mark.parametrize("chat", [True, False])
def test_a_prompt_of_unknown_size_is_not_said_to_have_no_tokens(chat):
    unknown = dataclasses.replace(BEFORE, prompt_tokens=-1)
    assert closing(unknown, chat=chat, model="m", usage=True) == closing(BEFORE, chat=chat, model="m", usage=False)


def test_what_no_engine_has_told_is_empty_or_null_and_the_events_are_json():
    silent = dataclasses.replace(BEFORE, request_id=b"", created=b"")
    (event, _) = closing(silent, chat=True, model="m", usage=False).split(b"\n\n", 1)
    assert [json.loads(event[6:])[name] for name in ("id", "created", "model")] == ["", 0, "m"]
    found = json.loads(usage_event(Head(), 5, 3, chat=True)[6:])
    assert [found[name] for name in ("id", "created", "model")] == [None, None, None]
