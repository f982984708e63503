"""LastChunks of streams that are like earlier ones: never anything but what reading in full finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import EngineStream, examples

from evenstep import compiled
from evenstep.engines.streams import full_reply as replies
from evenstep.engines.streams.last_chunk import LastChunks, told
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template import learned
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.view import Dialect, UsageOptions

compiled_only = pytest.mark.skipif(compiled.numba is None, reason="in plain Python every event is parsed in full")
ALL = UsageOptions(usage=True, continuous=True, token_ids=True)
LAST = (
    b'data: {"id":"a","choices":[{"index":0,"delta":{"content":" x"},"finish_reason":"%b","token_ids":[7]}],'
    b'"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n'
)
USAGE = (
    b'data: {"id":"%b","created":%d,"choices":[],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n'
)


def template(reason=b"stop", prompt=40, count=5):
    raw = LAST % (reason, prompt, prompt + count, count)
    found = learned(raw, raw, " x", chat=True)
    assert found is not None
    return found


@compiled_only
def test_a_last_chunk_is_known_with_another_text_and_other_counts():
    ends, usual = LastChunks(), template(b"")
    ends.keep_last(usual, template())
    event = LAST % (b"stop", 40, 49, 9)
    kept = bytearray()
    assert ends.last(usual, event + b"data: more", 8, kept) == (len(event), event)
    assert kept == b' x"7"'
    assert ends.last(template(b"", 3), LAST % (b"stop", 3, 12, 9), 8, None)[0] > 0


@pytest.mark.parametrize(
    "event",
    [
        LAST % (b"stop", 40, 48, 9),  # the counts do not agree
        LAST % (b"stop", 40, 50, 10),  # a token is missing
        LAST % (b"length", 40, 49, 9),
        (LAST % (b"stop", 40, 49, 9))[:-1],
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_one_that_does_not_fit_is_not_known(event):
    ends = LastChunks()
    ends.keep_last(template(b""), template())
    kept = bytearray()
    assert ends.last(template(b""), event, 8, kept) == (0, b"")
    assert not kept


def test_a_usage_is_expected_with_what_differs_put_in():
    ends = LastChunks()
    assert ends.usage(told(b'"b"', b"9", 4, 2))[0] == b""
    ends.keep_usage(USAGE % (b"a", 7, 3, 8, 5), told(b'"a"', b"7", 3, 5), b'"fp"')
    assert ends.usage(told(b'"b"', b"9", 41, 2)) == (USAGE % (b"b", 9, 41, 43, 2), b'"fp"')
    ends.keep_usage(USAGE % (b"a", 7, 3, 8, 5) * 2, told(b'"a"', b"7", 3, 5), b"")  # each twice: nothing is learned
    assert ends.usage(told(b'"b"', b"9", 41, 2))[1] == b'"fp"'


@compiled_only
def test_eight_forms_are_known_at_once():
    ends, usual = LastChunks(), template(b"")

    def known(n):
        return ends.last(usual, LAST % (b"end%d" % n, 40, 49, 9), 8, None)[0] > 0

    for n in range(9):
        assert not known(n)
        ends.keep_last(usual, template(b"end%d" % n))
        assert [known(m) for m in range(n + 1)] == ([True] * (n + 1) if n < 8 else [False] * 8 + [True])


@compiled_only
def test_forms_without_ids_are_told_apart_and_a_stream_of_other_chunks_teaches_nothing():
    def bare(reason):
        raw = b'data: {"id":"a","choices":[{"index":0,"text":" x","finish_reason":%b}]}\n\n' % reason
        found = learned(raw, raw, " x", chat=False, is_counted=False)
        assert found is not None
        return raw, found

    ends, (_, usual) = LastChunks(), bare(b"null")
    ends.keep_last(template(b""), bare(b'"stop"')[1])  # the text begins elsewhere
    assert ends.last(usual, bare(b'"stop"')[0], 8, None) == (0, b"")
    for reason in (b'"stop"', b'"length"'):
        ends.keep_last(usual, bare(reason)[1])
    for reason in (b'"stop"', b'"length"'):
        raw = bare(reason)[0]
        assert ends.last(usual, raw, 8, None) == (len(raw), raw)


def stream_of(texts, reason, prompt, number):
    """Events of a stream of that prompt, under an id of its own."""
    steps = [(0, (100 + i,), text, None) for i, text in enumerate(texts)]
    last = (0, (7,), " end" if reason == "length" else "", reason)
    events = EngineStream(True, tuple(range(1, 1 + prompt)), (*steps, last), 1, "fp-1").events(ALL)
    return [re.sub(rb'"id":"[^"]*"', b'"id":"chatcmpl-%d"' % number, event) for event in events]


def read(parts, client, templates):
    reply = ReplyStream(Dialect(), chat=True, client=client, engine=ALL, keep=True, templates=templates)
    out = b"".join([reply.feed(part) for part in parts]) + reply.end()
    return (
        out,
        reply.produced,
        reply.prompt_tokens,
        reply.done,
        reply.fingerprint,
        str(reply.failure),
        reply.so_far(),
    )


@examples(60)
@given(st.sampled_from([UsageOptions(), ALL, UsageOptions(usage=True)]), st.data())
def test_streams_in_any_writes_end_as_if_each_were_read_in_full(client, data):
    templates = TemplateCache()
    for number in range(3):
        texts = data.draw(st.lists(st.sampled_from([" a", "é", ""]), min_size=2, max_size=5))
        prompt, reason = data.draw(st.integers(1, 12)), data.draw(st.sampled_from(["stop", "length"]))
        events = stream_of(texts, reason, prompt, number)
        if data.draw(st.booleans()):  # it breaks off
            del events[data.draw(st.integers(1, len(events) - 1)) :]
        whole, cuts = b"".join(events), st.lists(st.integers(1, 4000), max_size=4)
        places = sorted({place % len(whole) for place in data.draw(cuts)})
        parts = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
        assert read(parts, client, templates) == read(events, client, None)


@compiled_only
def test_the_end_of_a_stream_like_the_last_one_is_not_parsed(monkeypatch):
    templates = TemplateCache()
    first = stream_of([" a", " b", " c"], "length", 3, 0)
    read(first, UsageOptions(), templates)
    second = stream_of([" a", " b", " c", " d"], "length", 11, 1)
    reply = ReplyStream(Dialect(), chat=True, client=UsageOptions(), engine=ALL, keep=True, templates=templates)
    for event in second[:3]:
        reply.feed(event)
    monkeypatch.setattr(replies, "read_chunk", lambda data: pytest.fail("it was parsed"))
    out = reply.feed(b"".join(second[3:]))
    assert reply.done and out.endswith(b"data: [DONE]\n\n") and b'"system_fingerprint"' in out
