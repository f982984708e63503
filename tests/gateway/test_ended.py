"""What is known of a request when it is over."""

from __future__ import annotations

import asyncio
import math

import aiohttp
import pytest
from tests.gateway.running import DONE, END, EVENTS, STALLS, base, chunk, engine, framed, raw, request, serving, until, whole

from evenstep.dispatch.arrivals import Arrivals
from evenstep.gateway.config.sections import ApiKey, Limits, RequestClass
from evenstep.gateway.connections.client import Client
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.serve.ended import Ended
from evenstep.gateway.serve.pools import Pools


def test_times_are_differences_and_unknown_where_something_never_was():
    one = Ended("r", "complete", 200, output_tokens=5, arrived_s=1.0, first_s=3.0, ended_s=5.0)
    assert (one.ttft_s, one.tpot_s) == (pytest.approx(2.0), pytest.approx(0.5))
    none = Ended("r", "refused", 429, arrived_s=1.0, ended_s=1.0)
    assert math.isnan(none.ttft_s) and math.isnan(none.tpot_s)
    several = Ended("r", "complete", 200, output_tokens=12, sequences=4, first_s=3.0, ended_s=5.0)
    assert several.tpot_s == pytest.approx(1.0)
    at_once = Ended("r", "complete", 200, output_tokens=12, sequences=0, first_s=3.0, ended_s=3.1)
    assert math.isnan(at_once.tpot_s)


def test_the_time_a_token_is_that_of_each_sequence_of_a_stream_as_in_the_metric():
    async def scripted(number, head, body, writer):
        if b'"stream"' not in body:
            usage = b'"usage":{"prompt_tokens":2,"completion_tokens":5}'
            writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}],%b}' % usage))
            return
        writer.write(EVENTS)
        for n in range(1, 7):
            event = chunk(f" t{n}", (n + 1) // 2, "length" if n > 4 else None)
            writer.write(framed(event if n % 2 else event.replace(b'"index":0', b'"index":1')))
            await writer.drain()
            await asyncio.sleep(0.002)
        writer.write(framed(DONE) + END)

    async def story():
        told: list[Ended] = []
        async with engine(scripted) as one, serving(one.url) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            body = {"model": "m", "prompt": "x", "max_tokens": 5}
            async with aiohttp.ClientSession(base(server)) as client:
                await (await client.post("/v1/completions", json=body)).read()
                await (await client.post("/v1/completions", json={**body, "n": 2, "stream": True})).read()
            await until(lambda: len(told) == 2)
            metric = server.gateway.snapshot()["models"]["m"]["tpot_seconds"]
        at_once, streamed = told
        assert (at_once.output_tokens, streamed.output_tokens) == (5, 6)
        assert math.isnan(at_once.tpot_s)
        assert streamed.tpot_s == pytest.approx((streamed.ended_s - streamed.first_s) / 2)
        assert metric["count"] == 1 and streamed.tpot_s == pytest.approx(metric["sum"], rel=0.3)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_stream_that_broke_and_could_not_go_on_has_the_tokens_that_came():
    async def dies_late(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" t1", 1)) + framed(chunk(" t2", 2)))
        await writer.drain()
        return STALLS if b'"stall"' in body else False

    async def story():
        told: list[Ended] = []
        async with engine(dies_late) as one, serving(one.url) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            body = {"model": "m", "prompt": "x", "max_tokens": 5, "stream": True, "n": 2}
            async with aiohttp.ClientSession(base(server)) as client:
                assert '"error"' in await (await client.post("/v1/completions", json=body)).text()
                left = await client.post("/v1/completions", json={**body, "prompt": "stall"})
                await left.content.readuntil(b"t2")
                server.gateway.drain()
                await server.gateway.give_up(1.0)
        assert [(one.outcome, one.status, one.output_tokens) for one in told] == [("error", 200, 2)] * 2

    asyncio.run(asyncio.wait_for(story(), 60))


def test_every_request_is_told_once_with_what_became_of_it():
    calls: list[int] = []

    async def scripted(number, head, body, writer):
        calls.append(number)
        if len(calls) == 1:
            return False  # breaks before a token: tried on the other engine
        writer.write(EVENTS)
        for n in range(1, 4):
            writer.write(framed(chunk(f" t{n}", n, "length" if n == 3 and b'"stall"' not in body else None)))
        await writer.drain()
        if b'"stall"' in body:
            await asyncio.sleep(60)
        writer.write(framed(DONE) + END)

    async def story():
        told: list[Ended] = []
        key, kinds = ApiKey("k", "t", ["fast"]), {"fast": RequestClass()}
        async with (
            engine(scripted) as one,
            engine(scripted) as two,
            serving(one.url, two.url, keys=[key], classes=kinds) as server,
        ):
            server.gateway.front.listen_to((told.append,), (told.append,))
            base_url = base(server)
            headers = {"Authorization": "Bearer k", "X-Request-Id": "r1", "traceparent": "00-aa-bb-01"}
            body = {"model": "m", "prompt": "say", "max_tokens": 3, "stream": True}
            async with aiohttp.ClientSession(base_url, headers=headers) as client:
                await (await client.post("/v1/completions", json=body)).read()
                assert (await client.post("/v1/completions", json={**body, "model": "x"})).status == 404
                assert (await client.post("/v1/completions", data=b"{")).status == 400
                leaving = await client.post("/v1/completions", json={**body, "prompt": "stall"})
                await leaving.content.readuntil(b"t3")
                leaving.close()
                assert (await client.post("/v1/completions", json=body, headers={"Authorization": ""})).status == 401
            await until(lambda: len(told) == 5)
        assert {one.class_name for one in told if one.request_class} == {"fast"}
        done = next(one for one in told if one.outcome == "complete")
        left = next(one for one in told if one.outcome == "cancelled")
        unknown, broken, stranger = (next(one for one in told if one.status == s) for s in (404, 400, 401))
        assert (done.status, done.tries, done.model) == (200, 2, "m")
        assert done.worker in (one.url[7:], two.url[7:])
        assert (done.output_tokens, done.prompt_tokens, done.tenant, done.request_class) == (3, 2, "t", 1)
        assert done.request_id == "r1" and done.traceparent == "00-aa-bb-01" and done.path == "/v1/completions"
        assert done.arrived_s <= done.sent_s <= done.first_s <= done.ended_s and not done.continued
        assert (unknown.outcome, unknown.tenant, unknown.tries, unknown.model) == ("refused", "t", 0, "x")
        assert (broken.outcome, stranger.outcome, stranger.tenant) == ("refused", "refused", "")
        assert (left.status, left.output_tokens) == (200, 3)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_goes_on_elsewhere_is_one_request_and_what_no_engine_can_do_an_error():
    async def dies_late(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" t1", 1, ids=[1])))
        await writer.drain()
        return False

    async def story():
        told: list[Ended] = []
        async with engine(dies_late) as one, engine(dies_late) as two, serving(one.url, two.url) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            body = {"model": "m", "prompt": [1, 2], "max_tokens": 5, "stream": True, "temperature": 0}
            async with aiohttp.ClientSession(base(server)) as client:
                text = await (await client.post("/v1/completions", json=body)).text()
                assert '"error"' in text
        (ended,) = told
        assert (ended.outcome, ended.status, ended.continued) == ("error", 200, True)
        assert ended.tries >= 2 and ended.output_tokens >= 1

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_is_passed_on_is_told_as_well():
    async def scripted(number, head, body, writer):
        if b"/tokenize" in head:
            writer.write(whole(200, b'{"tokens": [1]}'))
        else:
            writer.write(whole(400, b'{"error": {"message": "no", "type": "x", "param": null, "code": null}}'))

    async def story():
        told: list[Ended] = []
        async with engine(scripted) as one, serving(one.url) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            async with aiohttp.ClientSession(base(server)) as client:
                for path in ("/tokenize", "/v1/embeddings", "/nothing"):
                    await (await client.post(path, json={"model": "m"})).read()
                await (await client.post("/tokenize", json={"model": "y" * 1000})).read()
                await (await client.get("/v1/batches")).read()
                await client.get("/v1/models")
                await client.get("/healthz")
            await until(lambda: len(told) >= 5)
        assert [(e.method, e.path, e.outcome, e.status, e.model) for e in told] == [
            ("POST", "/tokenize", "complete", 200, "m"),
            ("POST", "/v1/embeddings", "error", 400, "m"),
            ("POST", "/nothing", "refused", 404, ""),
            ("POST", "/tokenize", "refused", 404, "y" * 117 + "..."),
            ("GET", "/v1/batches", "error", 400, ""),
        ]
        assert told[0].worker == one.url[7:] and told[0].tries == 1 and told[0].tenant == "anonymous"

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize(
    ("path", "where", "status", "counted"),
    [
        ("/tokenize", "send", 500, {}),
        ("/v1/completions", "send", 500, {"500": 1}),
        ("/v1/completions", "start", 200, {"error": 1}),
        ("/v1/completions", "pool_of", 500, {}),
        ("/v1/completions", "arrived", 500, {}),
    ],
)
def test_what_meets_a_bug_of_ours_ends_with_an_error_and_not_as_cancelled(path, where, status, counted, monkeypatch):
    async def scripted(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" t1", 1, "length")) + framed(DONE) + END)

    async def story():
        told: list[Ended] = []
        async with engine(scripted) as one, serving(one.url) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            if where == "send":
                monkeypatch.setattr(Endpoint, "send", lambda *_: 1 / 0)
            elif where == "pool_of":
                monkeypatch.setattr(Pools, "pool_of", lambda *_: 1 / 0)
            elif where == "arrived":
                monkeypatch.setattr(Arrivals, "arrived", lambda *_: 1 / 0)
            else:
                sends = Client.send

                def fails(self, data, last=False):
                    sends(self, data)
                    self.fail()

                monkeypatch.setattr(Client, "send", fails)
            body = {"model": "m", "prompt": "x", "stream": True}
            answer = await raw(server, request(body, path, headers="Connection: close\r\n"))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"\r\nX-Request-Id: %b\r\n" % told[0].request_id.encode() in answer
            (found,) = server.gateway.snapshot()["models"].values()
            assert (found["requests_total"], found["cancelled_total"]) == (counted, 0)
        assert [(one.outcome, one.status) for one in told] == [("error", status)]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_request_that_is_refused_before_it_is_whole_is_told_as_well():
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-Request-Id: %b\r\n"
    too_large = head % b"large" + b"Content-Length: 2000\r\n\r\n"
    in_chunks = head % b"chunks" + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    too_slow = head % b"slow" + b"Content-Length: 9\r\n\r\nabc"

    async def story():
        told: list[Ended] = []
        async with serving(is_ready=False, limits=Limits(body_bytes=1000, body_s=0.02)) as server:
            server.gateway.front.listen_to((told.append,), (told.append,))
            for data in (too_large, in_chunks, too_slow, b"GET /v1/models\r\n\r\n"):  # the last has no readable head
                await raw(server, data)
            assert sum(server.gateway.front.codes.values()) == 4
        assert [(one.request_id, one.path, one.outcome, one.status, one.tenant) for one in told] == [
            ("large", "/v1/completions", "refused", 413, "anonymous"),
            ("chunks", "/v1/completions", "refused", 400, "anonymous"),
            ("slow", "/v1/completions", "refused", 408, "anonymous"),
        ]
        assert all(one.arrived_s <= one.ended_s for one in told)

    asyncio.run(asyncio.wait_for(story(), 60))
