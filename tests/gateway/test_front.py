"""What is asked, who asks, and what is answered without any engine."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from msgspec import structs
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    MODELS,
    QUICK,
    chunk,
    engine,
    framed,
    raw,
    request,
    serving,
)

from evenstep.dispatch.events import Arrived
from evenstep.dispatch.settings import Tenant
from evenstep.gateway.config.sections import ApiKey, RequestClass

CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "say", "max_tokens": 1, "stream": True}


async def one_token(number, head, body, writer):
    writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)


def rest(answer):
    return answer.partition(b"\r\n\r\n")[2]


def test_models_health_and_readiness():
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            get = lambda path: raw(server, request(b"", path, "GET", CLOSE))  # noqa: E731
            assert json.loads(rest(await get("/v1/models"))) == json.loads(MODELS)
            assert json.loads(rest(await get("/v1/models/m")))["id"] == "m"
            assert (await get("/v1/models/other")).startswith(b"HTTP/1.1 404 ")
            for path in ("/healthz", "/health", "/readyz"):
                assert rest(await get(path)) == b"ok"
            server.gateway.drain()
            assert (await get("/healthz")).startswith(b"HTTP/1.1 200 ")
            assert (await get("/readyz")).startswith(b"HTTP/1.1 503 ")
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 503 ")

    asyncio.run(story())


def test_keys_classes_limits_and_hints():
    async def story():
        settings = {
            "keys": [ApiKey("sesame", "us", ["fast"]), ApiKey("other", "them")],
            "classes": {"fast": RequestClass(), "slow": RequestClass()},
            "tenants": {"them": Tenant(per_s=0.001, burst=1)},
        }
        async with engine(one_token) as one, serving(one.url, **settings) as server:

            async def status(headers, body=BODY, path="/v1/completions", method="POST"):
                answer = await raw(server, request(body, path, method, CLOSE + headers))
                return int(answer.split()[1])

            assert await status("") == 401
            assert await status("", b"", "/v1/models", "GET") == 401
            assert await status("", b"", "/healthz", "GET") == 200
            key = "Authorization: Bearer sesame\r\n"
            assert await status(key) == 200
            assert await status(key + "x-evenstep-class: fast\r\n") == 200
            assert await status(key + "x-evenstep-class: slow\r\n") == 403
            assert await status(key + "x-evenstep-expected-tokens: 12\r\n") == 200
            assert await status(key + "x-evenstep-expected-tokens: many\r\n") == 400
            assert [await status("Authorization: Bearer other\r\n") for _ in range(2)] == [200, 429]
            assert all(b"authorization" not in head.lower() for head, _ in one.asked)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"\xff", 400, "body"),
        (b"[]", 400, "body"),
        (b"{", 400, "body"),
        ({"prompt": "x"}, 400, "model"),
        ({"model": "m"}, 400, "prompt"),
        ({**BODY, "max_tokens": -1}, 400, "max_tokens"),
        ({**BODY, "model": "x"}, 404, "model"),
    ],
)
def test_a_request_that_is_none_is_told_which_field(body, status, field):
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            answer = await raw(server, request(body, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert json.loads(rest(answer))["error"]["param"] == field
            assert one.asked == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("coding", "body", "status", "said"),
    [
        ("gzip", gzip.compress(b"{}", mtime=0), 415, "Content-Encoding gzip;"),
        ("", b"{", 400, "body is '{'"),
        ("Identity", b"{", 400, "body is '{'"),
        ("gzip", BODY, 200, ""),
    ],
)
def test_a_body_that_cannot_be_read_since_it_is_compressed_is_told_so(coding, body, status, said):
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            answer = await raw(server, request(body, headers=f"{CLOSE}Content-Encoding: {coding}\r\n"))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert said in rest(answer).decode()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/a\\b", 400), ("/v1\\completions", 400), ("/v1/a%5Cb", 404), ("/v1/a%5C..%5C..%5Cmetrics", 404)],
)
def test_a_path_with_a_backslash_reaches_no_engine(path, status):
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            answer = await raw(server, request({}, path, headers=CLOSE))
            assert int(answer.split()[1]) == status
            assert not one.asked

    asyncio.run(story())


def test_a_requests_id_is_the_clients_where_it_is_plain():
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            answer = await raw(server, request(BODY, headers=CLOSE + "X-Request-Id: abc.1\r\n"))
            assert b"\r\nX-Request-Id: abc.1\r\n" in answer
            await raw(server, request(BODY, headers=CLOSE + "X-Request-Id: a b\r\n"))
            assert b"X-Request-Id: abc.1\r\n" in one.asked[0][0]
            assert b"a b" not in one.asked[1][0]

    asyncio.run(story())


ORIGIN = "Origin: https://chat.example\r\n"
ASKS = ORIGIN + "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, content-type\r\n"


@pytest.mark.parametrize("allowed", ["https://Chat.example", "*"])
def test_pages_of_allowed_origins_may_ask(allowed):
    async def story():
        keys = [ApiKey("secret", "a")]
        async with engine(one_token) as one, serving(one.url, allowed_origins=[allowed], keys=keys) as server:
            answer = (await raw(server, request(b"", method="OPTIONS", headers=CLOSE + ASKS))).lower()
            shown = b"*" if allowed == "*" else b"https://chat.example"
            assert answer.startswith(b"http/1.1 200 ")
            assert b"\r\naccess-control-allow-origin: %b\r\n" % shown in answer
            assert b"\r\naccess-control-allow-methods: post\r\n" in answer
            assert b"\r\naccess-control-allow-headers: authorization, content-type\r\n" in answer
            key = "Authorization: Bearer secret\r\n"
            for status, headers, body in (
                (200, key, BODY),
                (401, "", BODY),
                (404, key, BODY | {"model": "x"}),
                (400, key, b"{"),
            ):
                answer = await raw(server, request(body, headers=CLOSE + ORIGIN + headers))
                assert answer.startswith(b"HTTP/1.1 %d " % status)
                assert b"\r\nAccess-Control-Allow-Origin: %b\r\n" % shown in answer
                assert b"Allow-Methods" not in answer
            assert len(one.asked) == 1

    asyncio.run(story())


@pytest.mark.parametrize("allowed", [[], ["https://other.example"]])
def test_pages_of_other_origins_may_not_ask(allowed):
    async def story():
        keys = [ApiKey("secret", "a")]
        async with engine(one_token) as one, serving(one.url, allowed_origins=allowed, keys=keys) as server:
            assert (await raw(server, request(b"", method="OPTIONS", headers=CLOSE + ASKS))).startswith(b"HTTP/1.1 401 ")
            answer = await raw(server, request(BODY, headers=CLOSE + ORIGIN + "Authorization: Bearer secret\r\n"))
            assert answer.startswith(b"HTTP/1.1 200 ") and b"Access-Control" not in answer

    asyncio.run(story())


def test_sessions_and_prompts_are_told_as_hashes():
    async def story():
        async with engine(one_token) as one, serving(one.url, session_headers=["X-Session-Id"]) as server:
            (pool,) = server.gateway.pools.all
            for headers in ("x-session-id: s\r\n", "x-evenstep-task: s\r\n", ""):
                await raw(server, request(BODY, headers=CLOSE + headers))
            events = [e for e, _ in pool.dispatcher.history if type(e).__name__ == "Arrived"]
            assert events[0].session == events[1].session != 0
            assert events[2].session == 0
            assert len({e.key for e in events}) == 1

    asyncio.run(story())


@pytest.mark.parametrize(("settings", "blocks"), [({}, 3), ({"prefix_block_bytes": 64}, 15)])
def test_prompts_are_told_in_blocks_of_256_bytes_or_as_set(settings, blocks):
    async def story():
        dispatch = structs.replace(QUICK, **settings)
        async with (
            engine(one_token) as one,
            serving(one.url, policy="prefix-affinity", dispatch=dispatch) as server,
        ):
            (pool,) = server.gateway.pools.all
            await raw(server, request({**BODY, "prompt": "x" * 1000}, headers=CLOSE))
            assert {len(e.blocks) for e, _ in pool.dispatcher.history if isinstance(e, Arrived)} == {blocks}

    asyncio.run(story())
