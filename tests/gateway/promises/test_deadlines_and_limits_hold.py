"""Promise 7: deadlines are totals, limits hold before anything is parsed, and each refusal is an OpenAI error."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, answered, ask, body_of, request, verdict
from tests.gateway.promises.fleet import fleet, story

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"


async def drip(client: RawClient, data: bytes, every_s: float) -> None:
    """A byte now and then, for as long as somebody listens."""
    for i in range(len(data)):
        if client.closed.is_set():
            return
        client.send(data[i : i + 1])
        await asyncio.sleep(every_s)


async def dripped(f, before: bytes, slow: bytes):
    """What a client gets that sends its last part a byte at a time, each well within any pause."""
    client = (await RawClient.to(f.port)).send(before)
    task = asyncio.create_task(drip(client, slow, 0.02))
    reply = await client.reply()
    await client.closed.wait()
    await task
    return reply


def test_a_head_that_drips_in_is_refused_when_its_total_time_is_over():
    async def one():
        async with fleet(engines=1, limits={"head_s": 0.15}) as f:
            reply = await dripped(f, HEAD, b"X-Slow: " + b"a" * 4000)
            assert reply.status == 408 and reply.json["error"]["message"]
            assert not f.calls

    story(one)


def test_a_body_that_drips_in_is_refused_when_its_total_time_is_over():
    async def one():
        async with fleet(engines=1, limits={"body_s": 0.15, "body_bytes_per_s": 0}) as f:
            reply = await dripped(f, HEAD + b"Content-Length: 4000\r\n\r\n", b"{" + b" " * 3999)
            assert reply.status == 408 and reply.json["error"]["message"]
            reply = await dripped(f, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", e.chunk(b" " * 4000))
            assert reply.status == 408
            assert not f.calls

    story(one)


@pytest.mark.slow
def test_a_body_below_the_rate_floor_is_refused_long_before_its_deadline():
    async def one():
        async with fleet(engines=1, limits={"body_s": 60.0, "body_bytes_per_s": 5000}) as f:
            reply = await dripped(f, HEAD + b"Content-Length: 4000\r\n\r\n", b"{" + b" " * 3999)
            assert reply.status == 408
            assert not f.calls

    story(one)


def test_a_connection_that_asks_nothing_is_closed_without_a_word():
    async def one():
        async with fleet(engines=1, limits={"idle_s": 0.2, "head_s": 0.2}) as f:
            silent = await RawClient.to(f.port)
            await silent.closed.wait()
            client = (await RawClient.to(f.port)).send(ask(tokens=2))
            assert verdict(await client.reply(), 2) == "complete"
            await client.closed.wait()
            assert len(client.replies) == 2 and not client.replies[1].status

    story(one)


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X-Large: " + b"a" * 5000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: a\r\n" % i for i in range(900)) + b"\r\n",
        b"POST /v1/" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"X-Endless: " + b"a" * 100_000,
    ],
    ids=["one header", "many headers", "the target", "no end"],
)
def test_a_head_over_its_limit_is_refused(head):
    async def one():
        async with fleet(engines=1, limits={"head_bytes": 4096}) as f:
            client = (await RawClient.to(f.port)).send(head)
            reply = await client.reply()
            await client.closed.wait()
            assert reply.status == 431 and reply.json["error"]["message"]

    story(one)


def test_a_body_over_its_limit_is_refused_before_it_is_read():
    async def one():
        async with fleet(engines=1, limits={"body_bytes": 2000}) as f:
            client = (await RawClient.to(f.port)).send(HEAD + b"Content-Length: 2001\r\n\r\n")
            reply = await client.reply()
            assert reply.status == 413 and reply.json["error"]["message"]
            client = (await RawClient.to(f.port)).send(HEAD + b"Content-Length: 2001\r\nExpect: 100-continue\r\n\r\n")
            reply = await client.reply()
            assert reply.status == 413 and b"100 Continue" not in client.received
            chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + e.chunk(b" " * 1500) + e.chunk(b" " * 600)
            assert (await answered(f.port, chunked)).status == 413
            fits = body_of(tokens=2)
            assert verdict(await answered(f.port, request(fits + b" " * (2000 - len(fits)))), 2) == "complete"
            assert len(f.calls) == 1

    story(one)


def test_a_continue_is_said_to_who_waits_for_it():
    body = body_of(tokens=3)

    async def one():
        async with fleet(engines=1) as f:
            client = await RawClient.to(f.port)
            client.send(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            await client.until(lambda: b"100 Continue\r\n\r\n" in client.received)
            client.send(body)
            assert verdict(await client.reply(), 3) == "complete"

    story(one)


def test_a_non_stream_answer_has_its_deadline_too():
    async def one():
        async with fleet(engines=1, engine_deadlines={"answer_s": 0.15, "first_byte_s": 0.15}) as f:
            f.plan.otherwise = e.hang
            reply = await answered(f.port, ask(tokens=4, stream=False))
            assert verdict(reply, 4) == "refused" and reply.status == 504
            await f.calls[0].gone.wait()

    story(one)


@pytest.mark.slow
def test_ten_thousand_idle_connections_disturb_nobody():
    """As many as the limit of open files allows this process, which holds both ends of them."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, (soft - 500) // 2)

    async def one():
        async with fleet(engines=1) as f:
            idle = []
            for _ in range(count // 50):
                idle += await asyncio.gather(*(RawClient.to(f.port) for _ in range(50)))
            assert not any(client.closed.is_set() for client in idle)
            for _ in range(20):
                assert verdict(await answered(f.port, ask(tokens=8)), 8) == "complete"
            for client in idle:
                client.leave()
            await f.empty()

    story(one, limit_s=120)
