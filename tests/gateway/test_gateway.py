"""A running gateway as operation sees it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clock import turned
from tests.gateway import running as scripted
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
    whole,
)

from evenstep.errors import InputError
from evenstep.gateway.config.sections import ApiKey, Engines, Limits, Listen, Tls
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.tls import client_context

FILES = Path(__file__).parent / "certificates"
CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "say", "max_tokens": 2, "stream": True}


async def one_token(number, head, body, writer):
    writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)


def test_a_reload_changes_policy_and_keys_and_a_bad_one_changes_nothing():
    async def story():
        async with engine(one_token) as one, engine(one_token) as two, serving(one.url) as server:
            gateway = server.gateway
            before = gateway.config
            unread = [ApiKey("env:NOT_THERE", "t")]
            unknown = {"policy": "br-h", "predictor": "jsk"}
            for bad in ({"policy": "jsk"}, {"keys": unread}, {"policy": "br-0:x=1"}, unknown):
                with pytest.raises(InputError):
                    gateway.reload(replace(before, **bad))
            assert gateway.config is before
            gateway.pools.add(Worker(url=two.url, name="two", models=["m"]))
            gateway.reload(replace(before, policy="round-robin", keys=[ApiKey("k", "t")]))
            assert gateway.snapshot()["models"]["m"]["policy"] == "round-robin"
            assert len(gateway.workers()) == 2
            assert (await raw(server, request(BODY, headers=CLOSE))).startswith(b"HTTP/1.1 401 ")
            gateway.reload(before)
            assert b"[DONE]" in await raw(server, request(BODY, headers=CLOSE))

    asyncio.run(story())


def test_a_reload_reaches_the_workers_that_are_there_and_asks_for_their_models_again(monkeypatch, caplog):
    async def story():
        async with engine(one_token) as one, serving(slots=3, is_ready=False) as server:
            gateway = server.gateway
            gateway.pools.add(Worker(one.url, name="found"))
            await until(gateway.pools.listed)
            monkeypatch.setattr(scripted, "MODELS", scripted.MODELS.replace(b"[", b'[{"id":"adapter","parent":"m"},'))
            fresh = replace(gateway.config, slots=7)
            gateway.reload(fresh)
            assert gateway.config is fresh
            assert [worker["slots"] for worker in gateway.snapshot()["models"]["m"]["workers"]] == [7]
            await until(lambda: "adapter" in gateway.pools.listed())
            monkeypatch.setattr(scripted, "MODELS", b'{"object":"list","data":[]}')
            gateway.reload(fresh)
            await until(lambda: not gateway.pools._tasks)  # what says nothing now serves what it served
            assert set(gateway.pools.listed()) == {"m", "adapter"}

    asyncio.run(story())
    assert not [record for record in caplog.records if record.levelname != "INFO"]


@pytest.mark.parametrize("tls", [None, Tls(str(FILES / "server.pem"), str(FILES / "server.key"))])
def test_draining_waits_until_a_client_has_read_its_whole_answer(tls):
    choice = {"index": 0, "text": "x" * 12_000_000, "finish_reason": "stop"}
    answer = json.dumps({"id": "c", "object": "text_completion", "model": "m", "choices": [choice]}).encode()

    async def large(number, head, body, writer):
        writer.write(whole(200, answer))

    async def story():
        async with engine(large) as one, serving(one.url, listen=Listen(port=0, tls=tls)) as server:
            context = client_context(Engines(ca=str(FILES / "ca.pem"))) if tls else None
            name = "localhost" if tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
            writer.write(request({**BODY, "stream": False}))
            front = server.gateway.front
            await until(lambda: front.codes[200] == 1 and not any(client.is_busy for client in front.clients))
            assert not await server.drain(0.0)
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(answer)) == answer
            writer.close()
            assert await server.drain(10.0)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_client_that_closes_after_its_answer_has_idle_s_to_read_it_over_tls(monkeypatch):
    """When TLS is closed, the event loop sends the rest within its own limit, by default 30 s."""
    waits = list[float | None]()
    listen = asyncio.BaseEventLoop.create_server

    async def noted(loop, *args, **settings):
        waits.append(settings.get("ssl_shutdown_timeout"))
        return await listen(loop, *args, **settings)

    async def story():
        for tls in (None, Tls(str(FILES / "server.pem"), str(FILES / "server.key"))):
            async with serving(is_ready=False, listen=Listen(port=0, tls=tls), limits=Limits(idle_s=120.0)):
                pass

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_server", noted)
    asyncio.run(asyncio.wait_for(story(), 60))
    assert waits == [None, 120.0]


def test_draining_lets_what_runs_end_and_takes_nothing_new():
    async def story():
        go_on = asyncio.Event()

        async def slow(number, head, body, writer):
            writer.write(EVENTS + framed(chunk(" a", 1)))
            await go_on.wait()
            writer.write(framed(chunk(" b", 2, "length")) + framed(DONE) + END)

        async with engine(slow) as one, serving(one.url) as server:
            gateway = server.gateway
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            idle, _ = await asyncio.open_connection("127.0.0.1", server.port)
            await until(lambda: len(gateway.front.clients) == 2)
            writer.write(request(BODY))
            await reader.readuntil(b" a")
            draining = asyncio.create_task(server.drain(5.0))
            assert await idle.read() == b""
            await until(lambda: gateway.front.not_ready() == "draining")
            assert not draining.done()
            go_on.set()
            assert b"[DONE]" in await reader.read()
            assert await draining
            assert gateway.snapshot()["gateway"]["is_draining"]
            writer.close()

    asyncio.run(story())


def test_draining_does_not_wait_for_ever():
    async def story():
        async def stalls(number, head, body, writer):
            return STALLS

        async with engine(stalls) as one, serving(one.url) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(BODY))
            await until(lambda: one.asked)
            assert not await server.drain(0.01)
            writer.close()

    asyncio.run(story())


def test_the_snapshot_counts_answers_and_connections():
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            await raw(server, request(BODY, headers=CLOSE))
            await raw(server, request({}, headers=CLOSE))
            found = server.gateway.snapshot()["gateway"]
            assert found["answers_total"] == {"200": 1, "400": 1}
            assert found["generations"] == found["passing"] == 0

    asyncio.run(story())


def test_who_still_waits_when_the_gateway_ends_is_told_so():
    async def story():
        async def begins(number, head, body, writer):
            if b"/v1/responses" in head:
                writer.write(EVENTS + framed(b"data: 1\n\n"))
            elif b'"stream": true' in body:
                writer.write(EVENTS + framed(chunk(" a", 1)))
            return STALLS

        body = {"model": "m", "prompt": "x", "max_tokens": 9}
        wanted = [
            request(body | {"stream": True}),
            request(body),
            request(body, "/v1/embeddings"),
            request(body, "/v1/responses"),
            request(body | {"stream": True}),
        ]
        worker = Worker(url="http://x", slots=2)
        async with engine(begins) as one, serving(replace(worker, url=one.url)) as server:
            asked = []
            for place, data in enumerate(wanted):
                asked.append(asyncio.create_task(raw(server, data)))
                await until(lambda place=place: len(one.asked) >= min(place + 1, 4))
            await until(lambda: server.gateway.pools.all[0].requests == 3)
            await turned(40)  # what the engine said is on its way to the clients
            server.gateway.drain()
            await server.gateway.give_up(1.0)
            stream, whole_answer, other, events, waiting = await asyncio.gather(*asked)
            for answer in (whole_answer, other, waiting):
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"Retry-After: 1\r\n" in answer
            for answer in (stream, events):
                assert b'data: {"error":' in answer
                assert answer.endswith(END)

    asyncio.run(story())
