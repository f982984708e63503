"""Promise 6: a reader that stops reading stops its engine's socket; at most a megabyte is kept for it; others do not notice."""

from __future__ import annotations

import asyncio

from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story

MIB = 1 << 20
#: What the kernels of both connections may hold beside the gateway: send and receive buffers.
KERNEL = 24 * MIB


async def stopped(call: e.Call) -> int:
    """Waits until an engine's writes are held back; bytes it had written then."""
    while True:
        await asyncio.sleep(0.02)
        if not call.connection.writable.is_set():
            seen = call.written
            await asyncio.sleep(0.3)
            if call.written == seen:
                return seen


def test_a_reader_that_never_reads_stops_the_engine_and_nobody_else():
    async def one():
        async with fleet(engines=1) as f:
            f.plan.next.append(e.flood(64 * 1024))
            client = await RawClient.to(f.port)
            client.transport.pause_reading()
            client.send(ask(tokens=100_000))
            await f.asked(1)
            written = await stopped(f.calls[0])
            assert written < KERNEL
            assert f.buffered() <= MIB
            for _ in range(5):
                assert verdict(await answered(f.port, ask(tokens=8)), 8) == "complete"
            client.leave()
            async with asyncio.timeout(1):
                await f.calls[0].gone.wait()
            await f.empty()

    story(one)


def test_a_reader_that_goes_on_reading_gets_every_byte():
    async def one():
        async with fleet(engines=1) as f:
            f.plan.next.append(e.rewritten(padded))
            client = await RawClient.to(f.port)
            client.transport.pause_reading()
            client.send(ask(tokens=60))
            await f.asked(1)
            await stopped(f.calls[0])
            client.transport.resume_reading()
            reply = await client.reply()
            assert verdict(reply, 60) == "complete"
            assert len(reply.body) > 16 * MIB

    def padded(pieces):
        """Each event behind a comment of 350 kB, so that sixty tokens fill every buffer on the way."""
        comment = e.chunk(b": " + b"." * 350_000 + b"\n\n")
        return [pieces[0], *(part for piece in pieces[1:-1] for part in (comment, piece)), pieces[-1]]

    story(one)
