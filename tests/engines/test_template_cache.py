"""What one stream taught, as a guess for the next: never anything but what reading in full finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import EngineStream, examples, usual_streams

from evenstep.engines.streams import full_reply as replies
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.late import change

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)
IDS = UsageOptions(token_ids=True)


def other(events: list[bytes], name: bytes, created: bytes) -> list[bytes]:
    """The same stream under another id, at another time."""
    swap = {rb'"id":"(chat)?cmpl-7f"': b'"id":"%b"' % name, rb'"created":\d+': b'"created":%b' % created}
    for before, after in swap.items():
        events = [re.sub(before, after, event) for event in events]
    return events


def read(stream, events, client, engine, templates, lessons: int = 4, keep: bool = True):
    reply = ReplyStream(Dialect(), chat=stream.chat, client=client, engine=engine, keep=keep, templates=templates)
    reply._lessons = lessons
    out = b"".join([reply.feed(event) for event in events]) + reply.end()
    found = reply.failure and str(reply.failure)
    return out, reply.produced, reply.prompt_tokens, reply.done, reply.estimated, found, reply.so_far() if keep else None


@pytest.mark.slow
@examples(90)
@given(st.lists(usual_streams(), min_size=2, max_size=4), st.sampled_from([UsageOptions(), ALL]), st.data())
def test_streams_that_follow_others_are_read_as_in_full(streams, client, data):
    templates = TemplateCache()
    for number, stream in enumerate(streams):
        engine = data.draw(st.sampled_from([ALL, ALL, IDS]))
        events = other(stream.events(engine), b"cmpl-%d" % (10**number), b"%d" % data.draw(st.integers(1, 10**10)))
        if data.draw(st.booleans()):  # a byte is not as it was
            at, place = data.draw(st.integers(0, len(events) - 1)), data.draw(st.integers(0, 300))
            event = bytearray(events[at])
            event[place % len(event) : place % len(event) + 1] = data.draw(st.binary(max_size=2))
            events[at] = bytes(event)
        keep = data.draw(st.booleans())
        found = read(stream, events, client, engine, templates, keep=keep)
        assert found == read(stream, events, client, engine, None, lessons=0, keep=keep)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("chat", [True, False])
def test_of_the_second_stream_of_an_engine_at_most_the_first_event_is_read_in_full(monkeypatch, chat, keep):
    templates, full = TemplateCache(), []
    engine = UsageOptions(usage=True, continuous=True, token_ids=keep)  # ids are asked for where another engine may continue
    monkeypatch.setattr(replies, "read_chunk", lambda data, was=replies.read_chunk: (full.append(data), was(data))[1])
    steps = tuple((0, (100 + i,), f" w{i}", None) for i in range(20))
    for number, prompt in enumerate(((1, 2), (1, 2, 3))):
        full.clear()
        stream = EngineStream(chat, prompt, (*steps, (0, (7,), " end", "stop")), 1, "")
        events = other(stream.events(engine), b"chatcmpl-%d" % number, b"99")
        read(stream, events, UsageOptions(), engine, templates, keep=keep)
        # before there was a habit one usual event, the last, and usage; a chat begins with a chunk that has a role alone,
        # and a completion with one that tells the prompt's ids
        if change.is_compiled:
            assert len(full) == ((0 if chat else 1) if number else 4 if chat or keep else 3)
