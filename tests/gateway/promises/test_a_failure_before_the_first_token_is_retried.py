"""Promise 2: until a token has reached the client any failure is tried elsewhere; each engine once; nothing slow is doubled."""

from __future__ import annotations

import asyncio

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story
from tests.gateway.promises.test_every_stream_ends_in_one_of_two_ways import BEFORE
from tests.gateway.running import reset

from evenstep.dispatch.requests import deadlines

SILENCES = {
    "no byte": e.hang,
    "a head and no more": e.head_then_hang(),
    "a head, a role chunk and no more": e.head_then_hang(role=True),
    "half a head": e.raw(b"HTTP/1.1 200 OK\r\nContent-", hang=True),
}


@pytest.mark.parametrize("stream", [True, False])
def test_each_failure_goes_to_another_engine_and_each_engine_is_asked_once(stream):
    async def one():
        async with fleet(engines=3) as f:
            for name, fault in BEFORE.items():
                before = len(f.calls)
                f.plan.next.extend([fault, fault])
                reply = await answered(f.port, ask(chat=True, tokens=4, stream=stream))
                assert verdict(reply, 4) == "complete", (name, reply)
                assert len({call.engine for call in f.calls[before:]}) == len(f.calls) - before == 3, name

    story(one)


@pytest.mark.parametrize("name", SILENCES)
def test_silence_beyond_the_first_byte_deadline_goes_to_another_engine(name):
    async def one():
        async with fleet(engines=2, engine_deadlines={"first_byte_s": 0.2}) as f:
            f.plan.next.append(SILENCES[name])
            reply = await answered(f.port, ask(chat=True, tokens=4))
            assert verdict(reply, 4) == "complete", reply
            assert len({call.engine for call in f.calls}) == len(f.calls) == 2
            await f.calls[0].gone.wait()

    story(one)


def test_an_engine_that_refuses_connections_or_drops_them_costs_nothing():
    async def one():
        async with fleet(engines=3) as f:
            f.engines[0].kill()
            f.engines[1].rude = True
            for connection in list(f.engines[1].connections):
                connection.transport.abort()
            for _ in range(8):
                assert verdict(await answered(f.port, ask(tokens=4)), 4) == "complete"

    story(one)


@pytest.mark.parametrize("ends", [reset, lambda transport: transport.close()])
@pytest.mark.parametrize("stream", [True, False])
def test_a_kept_connection_that_ends_at_once_costs_nothing_where_there_is_one_engine_only(stream, ends):
    """It may have been closed before it was asked; a fresh one tells, and is asked once."""

    async def breaks(call: e.Call) -> None:
        ends(call.connection.transport)

    async def one():
        async with fleet(engines=1) as f:
            f.plan.next.extend([e.well, e.well, breaks, e.well])
            first = [answered(f.port, ask(tokens=4, stream=stream)) for _ in range(2)]
            assert [verdict(reply, 4) for reply in await asyncio.gather(*first)] == ["complete"] * 2
            assert verdict(await answered(f.port, ask(tokens=4, stream=stream)), 4) == "complete"
            kept = [call.connection for call in f.calls]
            assert len(kept) == 4 and kept[2] in kept[:2] and kept[3] not in kept[:2], (
                "the other kept one may be closed, too"
            )
            f.plan.next.extend([breaks, breaks])
            assert verdict(await answered(f.port, ask(tokens=4, stream=stream)), 4) == "refused"
            assert len(f.calls) == 6

    story(one)


def test_a_slow_prefill_is_not_doubled():
    """An engine within its deadline is waited for, however many others are idle."""

    async def one():
        async with fleet(engines=3) as f:
            release = asyncio.Event()
            f.plan.next.append(e.held(release))
            client = (await RawClient.to(f.port)).send(ask(tokens=4))
            await f.asked(1)
            assert verdict(await answered(f.port, ask(tokens=4)), 4) == "complete"
            release.set()
            assert verdict(await client.reply(), 4) == "complete"
            assert len(f.calls) == 2

    story(one)


def test_where_every_engine_fails_each_is_asked_once_and_the_client_hears_of_it():
    async def one():
        async with fleet(engines=3) as f:
            f.plan.otherwise = e.status(500)
            reply = await answered(f.port, ask(tokens=4))
            assert verdict(reply, 4) == "refused" and reply.status == 502
            assert len(f.calls) == len({call.engine for call in f.calls}) == 3

    story(one)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(code):
    """Neither to an address nor to a path: the prompt goes to no place the operator has not named."""

    async def one():
        async with fleet(engines=2) as f, fleet(engines=1) as trap:
            target = trap.engines[0]
            seen = len(target.heads)
            f.plan.next.append(e.status(code, {}, f"Location: {target.url}/v1/completions"))
            assert verdict(await answered(f.port, ask(tokens=4)), 4) == "complete"
            f.plan.next.extend([e.status(code, {}, "Location: /v1/chat/completions")] * 2)
            reply = await answered(f.port, ask(tokens=4))
            assert verdict(reply, 4) == "refused" and "location" not in reply.headers
            assert not target.calls
            assert not [path for path, _ in target.heads[seen:] if path.endswith("completions")]
            assert not [call for call in f.calls if call.path == "/v1/chat/completions"]

    story(one)


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_comes_back_with_another_model_costs_nothing_and_serves_that(stream):
    async def one():
        async with fleet(engines=3) as f:
            changed = f.engines[0]
            changed.serves = "another"
            for _ in range(12):
                reply = await answered(f.port, ask(tokens=4, stream=stream))
                assert verdict(reply, 4) == "complete", reply
            assert len(changed.calls) == 1, "it was asked once"
            pools = f.server.gateway.pools
            while "another" not in pools.by_model or not pools.by_model["another"].backends:
                await f.tick()
            reply = await answered(f.port, ask(tokens=4, stream=stream, model="another"))
            assert verdict(reply, 4) == "complete" and len(changed.calls) == 2
            changed.serves = e.MODEL  # and back
            reply = await answered(f.port, ask(tokens=4, stream=stream, model="another"))
            assert reply.status == 404 and reply.json["error"]["message"] == "The model `another` does not exist."
            while changed.url[7:] not in pools.by_model[e.MODEL].backends:
                await f.tick()
            assert sorted(pools.workers) == sorted(engine.url[7:] for engine in f.engines)
            before = len(changed.calls)
            while len(changed.calls) == before:
                assert verdict(await answered(f.port, ask(tokens=4, stream=stream)), 4) == "complete"

    story(one)


def test_an_engine_whose_operator_says_what_it_serves_gets_nothing_until_it_does():
    async def one():
        async with fleet(engines=2, models=[e.MODEL]) as f:
            changed = f.engines[0]
            changed.serves = "another"
            for _ in range(12):
                assert verdict(await answered(f.port, ask(tokens=4)), 4) == "complete"
            assert len(changed.calls) == 1
            asked = len(changed.heads)
            while [path for path, _ in changed.heads[asked:]].count("/v1/models") < 2:
                await f.tick()
            assert [worker["is_up"] for worker in f.shown["workers"]] == [False, True]
            changed.serves = ""
            await f.until(lambda shown: all(worker["is_up"] for worker in shown["workers"]))

    story(one)


def test_where_no_engine_serves_the_model_any_more_the_client_is_told_so(monkeypatch):
    monkeypatch.setattr(deadlines, "_PROBED_S", 0.1)

    async def one():
        async with fleet(engines=2, models=[e.MODEL]) as f:
            for engine in f.engines:
                engine.serves = "another"
            reply = await answered(f.port, ask(tokens=4))
            assert (verdict(reply, 4), reply.status) == ("refused", 404)
            assert len(f.calls) == 2
            f.plan.otherwise = e.status(500)
            f.engines[0].serves = ""
            reply = await answered(f.port, ask(tokens=4))
            assert verdict(reply, 4) == "refused" and reply.status in (502, 503), "the other one may serve it"

    story(one)
