"""Promise 5: a client that leaves frees engine and pool at every stage, also while nothing flows."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story

STAGES = {
    "the engine is silent": e.hang,
    "the head has come": e.head_then_hang(),
    "the role chunk has come": e.head_then_hang(role=True),
    "tokens came, and then nothing": e.after(3, end="hang"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("stream", [True, False])
def test_the_engine_is_let_go_within_a_second(stage, stream):
    async def one():
        async with fleet(engines=1) as f:
            f.plan.next.append(STAGES[stage])
            client = (await RawClient.to(f.port)).send(ask(chat=True, tokens=8, stream=stream))
            await f.asked(1)
            if stream and "tokens" in stage:
                await client.until(lambda: b" w2" in client.received)
            client.leave()
            async with asyncio.timeout(1):
                await f.calls[0].gone.wait()
            await f.empty()
            assert verdict(await answered(f.port, ask(tokens=4)), 4) == "complete"
            assert len(f.calls) == 2, "and it was not tried elsewhere"

    story(one)


def test_a_client_that_leaves_the_pool_is_not_sent_to_an_engine():
    async def one():
        async with fleet(engines=1, slots=1) as f:
            release = asyncio.Event()
            f.plan.next.append(e.held(release))
            first = (await RawClient.to(f.port)).send(ask(tokens=4))
            await f.asked(1)
            waiting = [(await RawClient.to(f.port)).send(ask(tokens=4)) for _ in range(5)]
            await f.until(lambda shown: shown["pool_depth"] == 5)
            for client in waiting:
                client.leave()
            await f.until(lambda shown: shown["pool_depth"] == 0)
            release.set()
            assert verdict(await first.reply(), 4) == "complete"
            await f.empty()
            assert len(f.calls) == 1

    story(one)


def test_a_client_that_leaves_in_its_body_leaves_nothing():
    data = ask(tokens=4)

    async def one():
        async with fleet(engines=1) as f:
            for at in (1, 20, len(data) // 2, len(data) - 1):
                client = (await RawClient.to(f.port)).send(data[:at])
                client.leave()
            assert verdict(await answered(f.port, data), 4) == "complete"
            await f.empty()
            assert len(f.calls) == 1

    story(one)


def test_a_client_that_leaves_between_prefill_and_decode_frees_both():
    async def one():
        async with fleet(engines=1, prefillers=1) as f:
            f.plan.next.extend([e.well, e.hang])
            client = (await RawClient.to(f.port)).send(ask(tokens=4))
            await f.asked(2)
            client.leave()
            await f.calls[1].gone.wait()
            f.plan.next.append(e.hang)
            client = (await RawClient.to(f.port)).send(ask(tokens=4))
            await f.asked(3)
            client.leave()
            await f.calls[2].gone.wait()
            await f.empty()

    story(one)


def test_half_a_close_is_a_leave_only_when_the_request_is_not_whole():
    """A client may shut its sending side after a whole request and still read the answer."""
    data = ask(tokens=4)

    async def one():
        async with fleet(engines=1) as f:
            client = (await RawClient.to(f.port)).send(data[:40])
            client.transport.write_eof()
            await client.closed.wait()
            assert not f.calls
            reader, writer = await asyncio.open_connection("127.0.0.1", f.port)
            writer.write(data.replace(b"Host: gateway", b"Host: gateway\r\nConnection: close"))
            writer.write_eof()
            whole = await reader.read()
            assert b" w3" in whole or not whole, "an answer, or none: never half of one"
            writer.close()
            await f.empty()

    story(one)
