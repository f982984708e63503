"""Streams whose chunks are compared with templates: what a client gets, what is counted, and what is left open."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.clock import turned
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    STALLS,
    chunk,
    engine,
    framed,
    raw,
    request,
    serving,
    until,
)

from evenstep import compiled
from evenstep.engines.streams.reply import ReplyStream
from evenstep.gateway.config.sections import Engines, Limits
from evenstep.gateway.config.worker import Worker

BODY = {"model": "m", "prompt": "say", "max_tokens": 100, "stream": True}
CLOSE = "Connection: close\r\n"
pytestmark = pytest.mark.skipif(compiled.numba is None, reason="templates are compared by compiled code only")


def stream(texts, ids=True, first=1, prompt=(7, 8)):
    """Events of a completion, one token each."""
    return [
        chunk(
            text,
            first + i,
            "length" if i == len(texts) - 1 else None,
            [100 + i] if ids else None,
            prompt=prompt,
        )
        for i, text in enumerate(texts)
    ]


async def written(writer, parts):
    """Each part as a write of its own, far enough apart to be read alone."""
    writer.write(EVENTS)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await turned()


@contextmanager
def watched():
    """Bytes of each read that templates matched."""
    taken, feed = [], ReplyStream.feed_chunks

    def watching(self, data, is_framed):
        found = feed(self, data, is_framed)
        taken.extend([found[0]] if found[0] else [])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplyStream, "feed_chunks", watching)
        yield taken


async def answered(parts, body, headers=CLOSE, **config):
    """Body of the answer as it came, and tokens that were counted."""

    async def answers(number, head, body, writer):
        await written(writer, parts)

    async with engine(answers) as one, serving(Worker(url=one.url, slots=4), **config) as server:
        answer = await raw(server, request(body, headers=headers))
        (pool,) = server.gateway.pools.all
        await until(lambda: not pool.requests)
        return answer.partition(b"\r\n\r\n")[2], pool.dispatcher.parts.meters.output_tokens


def joined(answer):
    """What the HTTP chunks of an answer carry: how an engine's writes are cut by the network is nobody's promise."""
    out, at = b"", 0
    while at < len(answer):
        line, _, _ = answer[at:].partition(b"\r\n")
        size = int(line, 16)
        out += answer[at + len(line) + 2 : at + len(line) + 2 + size]
        at += len(line) + 4 + size
    return out


class Pair:
    """An engine that writes what it is told to, behind a gateway."""

    def __init__(self):
        self.loop, self.parts, self.stack = asyncio.new_event_loop(), [], AsyncExitStack()
        self.loop.run_until_complete(self.open())

    async def open(self):
        async def answers(number, head, body, writer):
            await written(writer, self.parts)

        one = await self.stack.enter_async_context(engine(answers))
        self.server = await self.stack.enter_async_context(serving(one.url))

    async def answered(self, body):
        """What the answer carries, and tokens counted for it."""
        (pool,) = self.server.gateway.pools.all
        before = pool.dispatcher.parts.meters.output_tokens
        answer = await raw(self.server, request(body, headers=CLOSE))
        await until(lambda: not pool.requests)
        pool.dispatcher.check()
        return joined(answer.partition(b"\r\n\r\n")[2]), pool.dispatcher.parts.meters.output_tokens - before

    def ask(self, parts, body):
        """By compiled code, and without it."""
        self.parts = parts
        with pytest.MonkeyPatch.context() as patch:
            found = self.loop.run_until_complete(self.answered(body))
            patch.setattr(ReplyStream, "feed_chunks", lambda *given: (0, b""))
            return found, self.loop.run_until_complete(self.answered(body))

    def close(self):
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.close()


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.sampled_from([" a", " word", "é", "漢", "", " \\n", ' "']), min_size=4, max_size=20),
    options=st.sampled_from([{}, {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}]),
    data=st.data(),
)
def test_a_client_gets_and_the_dispatcher_counts_the_same(pair, texts, options, data):
    groups, rest = [], list(map(framed, stream(texts)))
    while rest:
        size = data.draw(st.integers(1, 3))
        groups.append(b"".join(rest[:size]))
        del rest[:size]
    cut = data.draw(st.integers(0, len(groups) - 1))
    place = data.draw(st.integers(1, len(groups[cut]) - 1))
    groups[cut : cut + 1] = [groups[cut][:place], groups[cut][place:]]
    found, expected = pair.ask([*groups, framed(DONE) + END], BODY | options)
    assert found == expected
    assert found[1] == len(texts)


def test_nearly_all_of_a_stream_is_matched_and_a_write_stays_a_write():
    parts = [framed(event) for event in stream([f" {i}" for i in range(60)])]
    with watched() as taken:
        answer, tokens = asyncio.run(answered([*parts, framed(DONE) + END], BODY))
    assert sum(taken) > 0.9 * sum(map(len, parts))
    assert tokens == 60
    writes = [line for line in answer.split(b"\r\n") if line[:6] == b"data: "]
    assert len(writes) == 60  # the last chunk waits for the end
    assert all(write.count(b"data: ") == 1 for write in writes[:-1])


@pytest.mark.parametrize("size", [1, 7])
def test_a_stream_may_come_in_any_pieces(size):
    whole = b"".join(framed(event) for event in stream([f" {i}" for i in range(12)])) + framed(DONE) + END
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    answer, tokens = asyncio.run(answered(parts, BODY))
    assert tokens == 12
    said = [part.partition(b'"')[0] for part in joined(answer).split(b'"text":"')[1:]]
    assert said == [b" %d" % i for i in range(12)]


def test_a_client_of_http_1_0_gets_bare_events():
    parts = [framed(event) for event in stream([f" {i}" for i in range(20)])]

    async def story():
        async def answers(number, head, body, writer):
            await written(writer, [*parts, framed(DONE) + END])

        async with engine(answers) as one, serving(one.url) as server:
            data = request(BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
            with watched() as taken:
                answer = await raw(server, data)
            assert taken
            assert answer.count(b"data: ") == 21 and answer.endswith(DONE)

    asyncio.run(story())


def test_a_client_that_leaves_frees_the_engine():
    async def story():
        async def answers(number, head, body, writer):
            await written(writer, [framed(event) for event in stream([" t"] * 30)[:-1]])
            return STALLS

        async with engine(answers) as one, serving(one.url) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            with watched() as taken:
                writer.write(request(BODY))
                await reader.readuntil(b" t")
                await until(lambda: taken)
                writer.close()
                await until(lambda: not one.open, 1.0)

    asyncio.run(story())


def test_an_engine_that_dies_is_continued_on_another_without_losing_a_token():
    async def story():
        async def answers(number, head, body, writer):
            texts = [f" {i}" for i in range(40)]
            if number == 0:
                await written(writer, [framed(event) for event in stream(texts)[:25]])
                return "dies"
            had = 25
            assert b'"max_tokens": 75' in body
            prompt = json.loads(body)["prompt"]
            await written(writer, [*map(framed, stream(texts[had:], prompt=prompt)), framed(DONE) + END])

        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            one.asked = two.asked  # one count of both
            with watched() as taken:
                answer = await raw(server, request(BODY, headers=CLOSE))
            assert taken
            said = [part.partition(b'"')[0] for part in answer.split(b'"text":"')[1:]]
            assert said == [b" %d" % i for i in range(40)]
            assert answer.endswith(END)

    asyncio.run(story())


def test_silence_in_mid_stream_is_a_failure():
    async def story():
        async def answers(number, head, body, writer):
            await written(writer, [framed(event) for event in stream([" t"] * 30)[:-1]])
            return STALLS

        engines = Engines(first_byte_s=2.0, silence_s=0.15)
        async with engine(answers) as one, serving(one.url, engines=engines) as server:
            with watched() as taken:
                answer = await raw(server, request(BODY, headers=CLOSE))
            assert taken
            assert b"stream_broken" in answer

    asyncio.run(story())


def test_a_slow_client_stops_its_engine_and_gets_everything():
    async def story():
        sent = [0]

        async def answers(number, head, body, writer):
            texts = ["x" * 7000] * 4000
            writer.write(EVENTS)
            for made, event in enumerate(stream(texts, ids=False)):
                writer.write(framed(event))
                await writer.drain()
                if made < 10:
                    await turned()
                sent[0] = made + 1
            writer.write(framed(DONE) + END)

        limits = Limits(buffer_bytes=65536)
        async with engine(answers) as one, serving(one.url, limits=limits) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=4096)
            with watched() as taken:
                writer.write(request(BODY | {"max_tokens": 4000}, headers=CLOSE))
                await reader.readexactly(2000)
                (worker,) = server.gateway.pools.all[0].backends.values()
                await until(lambda: all(one._is_paused for one in worker.endpoint.connections))
                assert taken and sent[0] < 4000, "the engine was not stopped"
                rest = await reader.read()
            writer.close()
            assert rest.endswith(END) and rest.count(b'"text"') > 3900

    asyncio.run(story())


def test_chunks_of_a_logged_model_are_in_its_log(tmp_path):
    from evenstep.dispatch.log.file import read_log
    from evenstep.dispatch.log.records import Chunks
    from evenstep.gateway.config.sections import Decisions

    parts = [framed(event) for event in stream([f" {i}" for i in range(30)])]
    path = tmp_path / "a.evlog"
    _, tokens = asyncio.run(answered([*parts, framed(DONE) + END], BODY, decisions=Decisions(path=str(path))))
    chunks = [record for record in read_log(path) if isinstance(record, Chunks)]
    assert sum(sum(one.tokens) or len(one.rows) for one in chunks) == tokens == 30
