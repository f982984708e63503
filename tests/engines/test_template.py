"""The short way and the long way are two implementations of one promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import EngineStream, examples, pieces, usual_streams

from evenstep.engines.streams import full_reply as replies
from evenstep.engines.streams import template as quicks
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template import learned
from evenstep.engines.streams.usual_events import CHUNKED, FRAMED
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.http.framing import Chunked, framed

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)
USAGE = UsageOptions(usage=True, continuous=True)
IDS = UsageOptions(token_ids=True)


def read(stream, sent: list[bytes], client, engine, lessons: int):
    """Everything that came of a stream, learning from so many of its events."""
    reply = ReplyStream(Dialect(), chat=stream.chat, client=client, engine=engine, keep=True, bytes_per_token=3.0)
    reply._lessons = lessons
    out = [reply.feed(part) for part in sent]
    found = reply.failure and str(reply.failure)
    return out, reply.produced, reply.prompt_tokens, reply.done, reply.estimated, found, reply.so_far()


def read_chunks(stream, sent: list[bytes], client, engine, is_framed: bool):
    """As `read`, of HTTP chunks in any pieces, as a connection reads them; what the client got, joined."""
    reply = ReplyStream(Dialect(), chat=stream.chat, client=client, engine=engine, keep=True, bytes_per_token=3.0)
    chunked, unframed, out, short = Chunked(), Chunked(), b"", 0
    for part in sent:
        if chunked.is_between:
            at, found = reply.feed_chunks(part, is_framed)
            assert found == b"" or at > 0
            short += at
            out += unframed.feed(found) if is_framed else found
            part = part[at:]
        out += reply.feed(chunked.feed(part))
    found = reply.failure and str(reply.failure)
    said = out, reply.produced, reply.prompt_tokens, reply.done, reply.estimated, found, reply.so_far()
    return said, short


def whole(found):
    return b"".join(found[0]), *found[1:]


@pytest.mark.slow
@examples(300)
@given(
    usual_streams(),
    st.sampled_from([UsageOptions(), USAGE, ALL]),
    st.sampled_from([ALL, UsageOptions()]),
    *[st.booleans()] * 2,
    st.data(),
)
def test_the_compiled_way_reads_the_same(stream, client, told, is_framed, is_cut, data):
    events = stream.events(told)
    number, place = data.draw(st.integers(0, len(events) - 1)), data.draw(st.integers(0, 300))
    if data.draw(st.booleans()):  # a byte is not as it was
        event = bytearray(events[number])
        event[place % len(event) : place % len(event) + 1] = data.draw(st.binary(max_size=2))
        events[number] = bytes(event)
    chunks = data.draw(pieces(b"".join(events))) if is_cut else events
    sent = data.draw(pieces(b"".join(map(framed, chunks))))
    found, _ = read_chunks(stream, sent, client, ALL, is_framed)
    assert found == whole(read(stream, events, client, ALL, 0))


@pytest.mark.parametrize("text", [" w", "é", "漢字", "😀"])
@pytest.mark.parametrize("burst", [1, 8])
@pytest.mark.parametrize("told", [ALL, UsageOptions()])
def test_nearly_all_events_go_the_compiled_way(monkeypatch, text, burst, told):
    steps = tuple((0, (100 + i,), f"{text}{i}", None) for i in range(200))
    stream = EngineStream(True, (1, 2), (*steps, (0, (7,), " end", "stop")), 1, "")
    events = stream.events(told)
    sent = [b"".join(map(framed, events[i : i + burst])) for i in range(0, len(events), burst)]
    found, short = read_chunks(stream, sent, UsageOptions(), ALL, True)
    assert found == whole(read(stream, events, UsageOptions(), ALL, 0))
    assert short > 0.9 * sum(map(len, sent)) or not quicks.change.is_compiled
    monkeypatch.setattr(quicks.change, "is_compiled", False)
    assert read_chunks(stream, sent, UsageOptions(), ALL, True) == (found, 0), "without a compiler nothing is taken"


@pytest.mark.parametrize("text", [b"\x80", b"\xc1\x81", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe9"])
def test_text_that_is_no_utf_8_is_not_taken(text):
    event = b'data: {"choices":[{"index":0,"text":"%b","token_ids":[5]}]}\n\n'
    quick = learned(event % b" a", event % b" a", " a", False)
    assert quick is not None
    good, bad = framed(event % b"b"), framed(event % text)
    at, count, out = quick.read(good + bad, 0, None, CHUNKED)
    assert (at, count, out) in [(len(good), 1, event % b"b"), (0, 0, b"")]


def test_what_is_no_http_chunk_is_not_taken():
    event = b'data: {"choices":[{"index":0,"text":" a","token_ids":[5]}]}\n\n'
    quick = learned(event, event, " a", False)
    assert quick is not None
    size = b"%x" % len(event)
    for wrong in (
        event,
        size + b"\n" + event + b"\r\n",
        size + b";x\r\n" + event + b"\r\n",
        size + b"\r\n" + event,
    ):
        assert quick.read(wrong, 0, None, FRAMED) == (0, 0, b"")
    assert quick.read(framed(event) * 3, 0, None, FRAMED)[0] in (3 * len(framed(event)), 0)


@pytest.mark.slow
@examples(300)
@given(
    usual_streams(),
    st.sampled_from([UsageOptions(), USAGE, IDS, ALL]),
    st.sampled_from([USAGE, IDS, ALL]),
    st.data(),
)
def test_every_event_reads_the_same_both_ways(stream, client, engine, data):
    engine = UsageOptions(
        client.usage or engine.usage,
        client.continuous or engine.continuous,
        client.token_ids or engine.token_ids,
    )
    sent = data.draw(pieces(b"".join(stream.events(engine))))
    assert read(stream, sent, client, engine, 4) == read(stream, sent, client, engine, 0)


@pytest.mark.slow
@examples(300)
@given(usual_streams(), st.data())
def test_an_event_with_a_byte_that_is_not_as_it_was_reads_the_same_both_ways(stream, data):
    events = stream.events(ALL)
    number = data.draw(st.integers(0, len(events) - 1))
    event = bytearray(events[number])
    place = data.draw(st.integers(0, len(event) - 1))
    event[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    events[number] = bytes(event)
    assert read(stream, events, UsageOptions(), ALL, 4) == read(stream, events, UsageOptions(), ALL, 0)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("engine", [USAGE, IDS, ALL])
@pytest.mark.parametrize("burst", [1, 8])
def test_nearly_all_events_go_the_short_way(monkeypatch, chat, engine, burst):
    full = []
    monkeypatch.setattr(replies, "read_chunk", lambda data, usual=replies.read_chunk: full.append(data) or usual(data))
    steps = tuple((0, (100 + i,), f" w{i}", None) for i in range(200))
    stream = EngineStream(chat, (1, 2), (*steps, (0, (7,), " end", "stop")), 1, "")
    events = stream.events(engine)
    sent = [b"".join(events[i : i + burst]) for i in range(0, len(events), burst)]
    _, produced, *_ = read(stream, sent, UsageOptions(), engine, 4)
    assert produced == 201 and (len(full) < 6 + burst or not quicks.change.is_compiled)


CHANGED = (
    [
        (b'"token_ids":[105]', b'"token_ids":[%b]' % value)
        for value in (b"x", b"1.5", b"01", b"-1", b"1e2", b"", b"null", b"1,2")
    ]
    + [(b'"completion_tokens":6', b'"completion_tokens":%b' % value) for value in (b"5", b"7", b"06", b"null", b"x", b"6.0")]
    + [
        (b'"total_tokens":8', b'"total_tokens":9'),
        (b'"index":0', b'"index":1'),
        (b'" w5"', b'" w\x015"'),
        (b'" w5"', b'" w\xff"'),
        (b'" w5"', b'" w\\n"'),
        (b'" w5"', b'" w\\"'),
        (b'" w5"', b"null"),
        (b'"finish_reason":null', b'"finish_reason":"length"'),
        (b"}\n\n", b"}\n\n: ping\n\n"),
        (b"}\n\n", b"}\r\n\r\n"),
        (b"data: ", b"data:"),
        (b"}\n\n", b"\n\n"),
    ]
)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("old", "new"), CHANGED)
def test_an_event_that_is_unlike_the_others_reads_the_same_both_ways(chat, old, new):
    steps = tuple((0, (100 + i,), f" w{i}", None) for i in range(9))
    stream = EngineStream(chat, (1, 2), (*steps, (0, (7,), " end", "stop")), 1, "")
    events = stream.events(ALL)
    place = 5 + chat
    assert old in events[place]
    events[place] = events[place].replace(old, new)
    assert read(stream, events, UsageOptions(), ALL, 4) == read(stream, events, UsageOptions(), ALL, 0)


def test_what_needs_more_than_a_look_is_not_learned():
    event = b'data: {"choices":[{"index":0,"text":"%b","token_ids":[5]}]}\n\n'
    plain = event % b" a"
    assert learned(plain, plain, " a", False) is not None
    assert learned(plain, plain, " b", False) is None, "the text is somewhere else"
    assert learned(plain, plain, " a", True) is None, "a chat has no text"
    assert learned(event % b"\\n", event % b"\\n", "\n", False) is None
    assert learned(plain.replace(b"[5]", b"[5,6]"), plain, " a", False) is None
    assert learned(plain.replace(b"data: ", b"data:"), plain, " a", False) is None
    assert learned(plain, b"data: {}\n\n", " a", False) is None
    counted = plain.replace(b"}]}", b'}],"usage":{"completion_tokens":5}}')
    assert learned(counted, counted, " a", False) is None, "half a usage"
    huge = plain.replace(b"}]}", b'}],"usage":{"completion_tokens":5,"total_tokens":100000000000000000000}}')
    assert learned(huge, huge, " a", False) is None, "a count beyond 64 bits"


def test_text_is_read_only_where_that_is_plain():
    event = 'data: {"choices":[{"index":0,"text":"%s","token_ids":[5]}]}\n\n'
    for text, content, is_plain in (
        ("é a", "é a", True),
        ("\\n", "\n", False),
        ("a\x7f", "a\x7f", False),
        ("a", "b", False),
    ):
        raw = (event % text).encode()
        assert (learned(raw, raw, content, False) is not None) == is_plain
