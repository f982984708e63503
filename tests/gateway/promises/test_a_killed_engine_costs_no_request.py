"""Promise 4: an engine that dies, alone or with all others, costs no request silently; and a killed one costs none at all."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, ask, verdict
from tests.gateway.promises.fleet import fleet, processes, story

TOKENS = 12


async def begun(f, count: int, **more) -> list[RawClient]:
    """So many streams, each with three tokens at the client and the rest held back."""
    clients = [(await RawClient.to(f.port)).send(ask(tokens=TOKENS, **more)) for _ in range(count)]
    for client in clients:
        await client.until(lambda c=client: b" w2" in c.received)
    return clients


@pytest.mark.parametrize("kind", [{}, {"chat": True}], ids=["completion", "chat"])
def test_the_streams_of_a_killed_engine_go_on_elsewhere(kind):
    async def one():
        async with fleet(engines=3) as f:
            release = asyncio.Event()
            f.plan.next.extend([e.held(release, 3)] * 12)
            clients = await begun(f, 12, **kind)
            f.engines[0].kill()
            release.set()
            replies = [await client.reply() for client in clients]
            assert {verdict(reply, TOKENS) for reply in replies} == {"complete"}
            await f.empty()

    story(one)


def test_when_all_engines_are_killed_every_client_is_told_and_nothing_is_left():
    async def one():
        async with fleet(engines=2, dispatch={"ttl_s": 0.4}) as f:
            release = asyncio.Event()
            f.plan.next.extend([e.held(release, 3)] * 8)
            clients = await begun(f, 8)
            for engine in f.engines:
                engine.kill()
            replies = [await client.reply() for client in clients]
            assert {verdict(reply, TOKENS) for reply in replies} == {"error"}
            late = await (await RawClient.to(f.port)).send(ask(tokens=2)).reply()
            assert verdict(late, 2) == "refused" and late.status in (502, 503)
            await f.empty()
            for engine in f.engines:
                await engine.start()
            while True:
                reply = await (await RawClient.to(f.port)).send(ask(tokens=2)).reply()
                if verdict(reply, 2) == "complete":
                    break
                assert verdict(reply, 2) == "refused"
            await f.empty()

    story(one)


def test_a_killed_prefiller_costs_no_request():
    async def one():
        async with fleet(engines=1, prefillers=2) as f:
            release = asyncio.Event()
            f.plan.next.extend([e.held(release)] * 4)
            clients = [(await RawClient.to(f.port)).send(ask(tokens=TOKENS)) for _ in range(4)]
            await f.asked(4)
            f.prefillers[0].kill()
            release.set()
            replies = [await client.reply() for client in clients]
            assert {verdict(reply, TOKENS) for reply in replies} == {"complete"}
            await f.empty()

    story(one)


@pytest.mark.slow
def test_kill_9_of_emulated_engines_under_load_costs_no_request():
    """Real processes: thirty streams over three engines, of which two are killed one after the other."""

    async def one():
        async with processes(engines=3) as p:
            sound = [await p.whole(i) for i in range(30)]
            clients = [await p.begin(i) for i in range(30)]
            for client in clients:
                await client.until(lambda c=client: c.received.count(b"data: ") >= 5)
            p.engines[0].kill()
            for client in clients:
                await client.until(lambda c=client: c.received.count(b"data: ") >= 15 or c.finished)
            p.engines[1].kill()
            replies = [await client.reply() for client in clients]
            assert [reply.text for reply in replies] == sound
            assert all(list(reply.events())[-1] == "[DONE]" for reply in replies)

    story(one, limit_s=120)


@pytest.mark.slow
def test_sigterm_under_load_ends_what_runs_and_sighup_disturbs_nothing():
    async def one():
        async with processes(engines=2) as p:
            sound = [await p.whole(i) for i in range(16)]
            clients = [await p.begin(i) for i in range(16)]
            for client in clients:
                await client.until(lambda c=client: c.received.count(b"data: ") >= 3)
            p.hup()
            late = await p.begin(0)
            await late.until(lambda: late.received.count(b"data: ") >= 3)
            p.term()
            replies = [await client.reply() for client in (*clients, late)]
            assert [reply.text for reply in replies] == [*sound, sound[0]]
            assert await p.gateway_ended() == 0
            with pytest.raises(OSError):
                await p.begin(1)

    story(one, limit_s=120)
