"""FirstChunks of streams that are like earlier ones: never anything but what reading in full finds."""

from __future__ import annotations

import pytest
from tests.strategies import EngineStream

from evenstep.engines.streams import full_reply as replies
from evenstep.engines.streams.first_chunk import FirstChunks, Start
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.view import Dialect, UsageOptions

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)
FIRST = (
    b'data: {"id":%b,"created":%b,"model":"50%%","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],'
    b'"usage":{"prompt_tokens":%b,"total_tokens":%b,"completion_tokens":0},"prompt_token_ids":%b}\n\n'
)
CLEAN = b'data: {"id":%b,"created":%b,"model":"50%%","choices":[]}\n\n'  # as long as it is always the same


def first(request_id=b'"a"', created=b"7", tokens=b"2", total=b"", ids=b"[5,6]", out=b""):
    """An event, and what is found in it."""
    raw = FIRST % (request_id, created, tokens, total or tokens, ids)
    return raw, Start(len(raw), request_id, created, int(tokens), ids, out or CLEAN % (request_id, created))


def learned():
    starts = FirstChunks()
    starts.keep(*first())
    return starts


def test_a_start_is_known_under_another_id_and_with_another_prompt():
    raw, start = first(b'"chat cmpl-9\'"', b"1763766000", b"4", ids=b"[1, 2,3 ,44]")
    assert learned().read(raw + b"data: more") == start


def test_one_that_goes_on_as_the_engine_sent_it_is_known_too():
    starts = FirstChunks()
    raw, start = first()
    starts.keep(raw, Start(*[getattr(start, name) for name in start.__struct_fields__[:-1]], raw))
    other, _ = first(b'"b"', b"8", b"3", ids=b"[7]")
    assert starts.read(other).out == other


@pytest.mark.parametrize(
    "raw",
    [
        first(rb'"a\u0062"')[0],
        first(b'"\xc3\xa4"')[0],
        first(b"12")[0],
        first(created=b"07")[0],
        first(created=b"null")[0],
        first(tokens=b"3", total=b"4")[0],
        first(tokens=b"9" * 8)[0],
        first(ids=b"[1,,2]")[0],
        first(ids=b"[01]")[0],
        first(ids=b"null")[0],
        first()[0].replace(b"index", b"indey"),
        first()[0][:-1],
        first()[0][1:],
        b"",
    ],
)
def test_what_does_not_fit_is_not_known(raw):
    assert learned().read(raw) is None


@pytest.mark.parametrize(
    ("raw", "start"),
    [
        first(request_id=b""),
        first(request_id=b"12"),
        (first()[0].replace(b'"index":0,', b'"index":0,"id":"a",'), first()[1]),  # the id stands there twice
        (first()[0].replace(b"data: ", b"data: \ndata: "), first()[1]),
        (first()[0].replace(b'"created"', b'\r"created"'), first()[1]),
        (
            first()[0].replace(b'"prompt_tokens":2,"total_tokens":2', b'"total_tokens":2,"prompt_tokens":2'),
            first()[1],
        ),
    ],
)
def test_from_one_that_cannot_be_told_apart_nothing_is_learned(raw, start):
    for starts, known in ((FirstChunks(), None), (learned(), first()[1])):
        starts.keep(raw, start)
        assert starts.read(first()[0]) == known


def test_a_start_that_brings_a_token_or_more_than_a_role_is_read_in_full(monkeypatch):
    full = []
    monkeypatch.setattr(replies, "read_chunk", lambda data, was=replies.read_chunk: (full.append(data), was(data))[1])
    steps = ((0, (100,), " w", None), (0, (101,), " x", None))
    events = EngineStream(True, (1, 2), (*steps, (0, (7,), " end", "stop")), 1, "").events(ALL)
    role = events[0]
    for change in (
        (b'"content":""', b'"content":"","reasoning":"so"'),
        (b'"completion_tokens":0', b'"completion_tokens":1'),
    ):
        templates, other = TemplateCache(), role.replace(*change)
        assert other != role
        for _ in range(3):
            full.clear()
            reply = ReplyStream(Dialect(), chat=True, client=UsageOptions(), engine=ALL, keep=True, templates=templates)
            reply.feed(other)
            assert len(full) == 1


def test_a_role_that_comes_in_pieces_is_read_as_in_full():
    stream = EngineStream(True, (1, 2), ((0, (100,), " w", None), (0, (7,), " end", "stop")), 1, "")
    whole, found = b"".join(stream.events(ALL)), []
    for templates in (TemplateCache(), None):
        for cut in (0, 0, *range(1, 250)):
            reply = ReplyStream(Dialect(), chat=True, client=UsageOptions(), engine=ALL, keep=True, templates=templates)
            out = reply.feed(whole[:cut]) + reply.feed(whole[cut:])
            assert reply.done
            found.append((out, reply.so_far()))
    assert len({out for out, _ in found}) == 1
    assert all(one == found[0] for one in found)
