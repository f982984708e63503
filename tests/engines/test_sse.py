"""Server-sent events: a reader of pieces against a plain reader of the whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import pieces

from evenstep.engines.streams.sse import EventReader


def reference(data: bytes) -> list[bytes]:
    """The data of every event of a whole stream, by the standard's words: lines, one after the other."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    lines = re.split(rb"\r\n|\n|\r", data)[:-1]  # what follows the last line end is no line yet
    events: list[bytes] = []
    values: list[bytes] = []
    for line in lines:
        field, colon, value = line.partition(b":")
        if not line and values:
            events.append(b"\n".join(values))
            values = []
        elif field == b"data":
            values.append(value[1:] if colon and value.startswith(b" ") else value)
    return events


def read(parts: list[bytes]) -> tuple[list[bytes], bytes]:
    """The data of every event that has any, and all bytes back."""
    reader = EventReader()
    events = [event for part in parts for event in reader.feed(part)] + reader.end()
    back = b"".join(raw for raw, _ in events) + reader.tail
    return [data for _, data in events if data is not None], back


lines = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data:  x",
        b"data",
        b"data:",
        b": ping",
        b"event: error",
        b"id",
        b"x",
        b"datax: 1",
        b"\xef\xbb\xbf",
    ]
)
streams = st.lists(st.tuples(lines | st.just(b""), st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda found: b"".join(line + end for line, end in found)
)


@given(streams, st.data())
def test_a_stream_in_any_pieces_has_the_events_of_the_whole(stream, data):
    parts = data.draw(pieces(stream))
    found, back = read(parts)
    assert back == stream
    assert found == reference(stream)


@given(streams)
@example(b"\xef\xbb\xbfdata: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: cut")
def test_a_stream_byte_by_byte_has_the_events_of_the_whole(stream):
    found, back = read([stream[i : i + 1] for i in range(len(stream))])
    assert (found, back) == (reference(stream), stream)


def test_a_stream_cut_at_every_offset_and_with_a_tail_has_the_events_of_the_whole():
    stream = b': hi\r\n\r\ndata: {"a":1}\n\ndata: x\ndata: y\r\n\r\nevent: e\rdata: z\r\rdata: [DONE]\n\ndata: tail'
    for cut in range(len(stream) + 1):
        assert read([stream[:cut], stream[cut:]]) == (reference(stream), stream)


def test_several_events_of_one_write_come_out_at_once():
    reader = EventReader()
    reader.feed(b": hello\n\n")
    events = reader.feed(b"data: 1\n\ndata: 2\n\n: ping\n\ndata: 3\n\nda")
    assert [data for _, data in events] == [b"1", b"2", None, b"3"]
    assert reader.tail == b"da"
    assert reader.feed(b"ta: 4\n\n") == [(b"data: 4\n\n", b"4")]


def test_an_event_over_the_limit_is_a_fault_and_nothing_is_read_after_it():
    for first in (b"", b"data: 1\n\n"):
        for parts in ([b"data: " + b"x" * 60 + b"\n\n"], [b"data: "] + [b"x"] * 60, [b"y" * 70]):
            reader = EventReader(limit=50)
            reader.feed(first)
            got = [event for part in parts for event in reader.feed(part)]
            assert got == []
            assert "longer than 50 bytes" in str(reader.fault)
            assert reader.feed(b"\n\ndata: 2\n\n") == []


def test_an_event_as_large_as_the_limit_passes():
    event = b"data: " + b"x" * 42 + b"\n\n"
    reader = EventReader(limit=len(event))
    assert reader.feed(event) == [(event, b"x" * 42)]
    assert reader.feed(event + event) == [(event, b"x" * 42)] * 2
    assert reader.fault is None


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\r", b"\n\n"])
def test_a_line_end_at_the_very_end_waits_only_where_more_may_belong_to_it(end):
    reader = EventReader()
    events = reader.feed(b"data: 1" + end)
    assert len(events) == (0 if end == b"\r\r" else 1)
    assert events + reader.end() == [(b"data: 1" + end, b"1")]
