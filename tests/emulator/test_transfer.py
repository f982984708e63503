"""Prefill on one emulator, decode on another."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.emulator.running import events, running, url

from evenstep.emulator.rank import Sequence as Work
from evenstep.emulator.settings import EmulatorSettings
from evenstep.emulator.transfer import Transfer

PROMPT = {
    "prompt": "a prompt that is long enough for several blocks of it",
    "ignore_eos": True,
    "return_token_ids": True,
}
LEG = {"max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False}}


@asynccontextmanager
async def split():
    async with (
        running(role="prefill", block_size=4) as prefill,
        running(role="decode", block_size=4) as decode,
        aiohttp.ClientSession() as session,
    ):
        yield prefill, decode, session


async def completion(session, where, **body):
    answer = await session.post(f"{where}/v1/completions", json={**PROMPT, **body})
    return answer.status, await answer.json()


def counts(emulator):
    found = emulator.fleet.rank(0).counts
    return found.local_tokens, found.fetched_tokens


def test_the_decode_leg_gives_what_one_engine_gives_and_computes_no_prompt():
    async def story():
        async with split() as (prefill, decode, session):
            _, first = await completion(session, url(prefill), **LEG)
            blocks = first["kv_transfer_params"]["remote_block_ids"][0]
            size = first["usage"]["prompt_tokens"]
            assert prefill.fleet.rank(0).memory.used == len(blocks) == -(-size // 4)
            given = {"kv_transfer_params": first["kv_transfer_params"], "max_tokens": 9}
            _, second = await completion(session, url(decode), **given)
            assert prefill.fleet.rank(0).memory.used == 0
            assert (counts(prefill), counts(decode)) == ((size, 0), (0, size))
            _, alone = await completion(session, url(decode), max_tokens=9)
            assert second["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]
            assert second["choices"][0]["token_ids"][0] == first["choices"][0]["token_ids"][0]

    asyncio.run(story())


@pytest.mark.parametrize(("role", "body"), [("both", {"max_tokens": 1}), ("decode", LEG)])
def test_kv_is_kept_only_by_an_engine_that_prefills_for_others_and_is_asked_to(role, body):
    async def story():
        async with running(role=role, block_size=4) as emulator, aiohttp.ClientSession() as session:
            status, told = await completion(session, url(emulator), **body)
            assert (status, told["kv_transfer_params"], emulator.fleet.rank(0).memory.used) == (200, None, 0)

    asyncio.run(story())


def test_the_host_of_an_engine_at_an_ipv6_address_is_in_brackets(monkeypatch):
    """The connection goes to another address, so that the test runs where there is no IPv6."""
    heads = []

    async def answers(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def story():
        server = await asyncio.start_server(answers, "127.0.0.1", 0)
        connect, port = asyncio.open_connection, server.sockets[0].getsockname()[1]
        monkeypatch.setattr(asyncio, "open_connection", lambda host, port: connect("127.0.0.1", port))
        async with server:
            assert await Transfer(EmulatorSettings(), [], lambda number, begun: False).fetch(("fd00::1", port, "x"), 7)
        assert f"\r\nHost: [fd00::1]:{port}\r\n".encode() in heads[0]

    asyncio.run(story())


def test_kv_is_fetched_once_and_only_for_its_own_prompt():
    async def story():
        async with split() as (prefill, decode, session):
            _, first = await completion(session, url(prefill), **LEG)
            given = {"kv_transfer_params": first["kv_transfer_params"]}
            status, said = await completion(session, url(decode), **{**given, "prompt": "another prompt"})
            assert (status, "could not be fetched" in said["error"]["message"]) == (500, True)
            assert prefill.fleet.rank(0).memory.used > 0
            assert (await completion(session, url(decode), **given))[0] == 200
            assert (await completion(session, url(decode), **given))[0] == 500
            stream = await session.post(f"{url(decode)}/v1/completions", json={**PROMPT, **given, "stream": True})
            assert "could not be fetched" in events(await stream.read())[0]["error"]["message"]

    asyncio.run(story())


def test_both_legs_in_one_process_and_a_chat():
    async def story():
        async with (
            running(ranks=2, groups=[1, 1]) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            body = {"messages": [{"role": "user", "content": "hello"}], "ignore_eos": True}
            first = await (await session.post("/v1/chat/completions", json={**body, **LEG})).json()
            given = {"kv_transfer_params": first["kv_transfer_params"], "max_tokens": 5}
            headers = {"X-data-parallel-rank": "1"}
            second = await (await session.post("/v1/chat/completions", json={**body, **given}, headers=headers)).json()
            assert second["usage"]["completion_tokens"] == 5
            assert emulator.fleet.rank(1).counts.fetched_tokens == first["usage"]["prompt_tokens"]
            assert emulator.fleet.rank(0).memory.used == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    "missing", ["remote_host", "remote_port", "remote_request_id", "remote_block_ids", "remote_num_tokens"]
)
def test_an_object_that_is_not_whole_is_refused(missing):
    async def story():
        async with split() as (prefill, decode, session):
            _, first = await completion(session, url(prefill), **LEG)
            given = {k: v for k, v in first["kv_transfer_params"].items() if k != missing}
            status, said = await completion(session, url(decode), kv_transfer_params=given)
            assert (status, said["error"]["param"]) == (400, "kv_transfer_params")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"remote_port": 99999}, 400),
        ({"remote_port": -1}, 400),
        ({"remote_port": 0}, 400),
        ({"remote_host": "a\0b"}, 500),
        ({"remote_host": "a" * 300}, 500),
    ],
)
def test_an_address_that_nothing_can_have_fails_the_decode_leg(change, status):
    async def story():
        async with split() as (prefill, decode, session):
            _, first = await completion(session, url(prefill), **LEG)
            given = {"kv_transfer_params": {**first["kv_transfer_params"], **change}}
            assert (await completion(session, url(decode), **given))[0] == status

    asyncio.run(asyncio.wait_for(story(), 60))


def test_kv_is_fetched_at_the_port_of_the_rank_that_holds_it():
    async def story():
        async with (
            running(role="prefill", ranks=2, groups=[1, 1], port_per_rank=True) as prefill,
            running(role="decode") as decode,
            aiohttp.ClientSession() as session,
        ):
            _, first = await completion(session, url(prefill, 1), **LEG)
            assert first["kv_transfer_params"]["remote_port"] == prefill.ports[1][0]
            prefill.fleet.kill([0])  # whose port refuses from now on
            given = {"kv_transfer_params": first["kv_transfer_params"]}
            assert (await completion(session, url(decode), **given))[0] == 200

    asyncio.run(story())


def test_an_engine_that_listens_everywhere_names_the_address_that_its_client_reached():
    async def story():
        async with running(host="0.0.0.0") as emulator, aiohttp.ClientSession() as session:
            _, first = await completion(session, url(emulator), **LEG)
            assert first["kv_transfer_params"]["remote_host"] == "127.0.0.1"
            given = {"kv_transfer_params": first["kv_transfer_params"]}
            assert (await completion(session, url(emulator), **given))[0] == 200

    asyncio.run(story())


def test_a_prefiller_that_is_gone_fails_the_decode_leg():
    async def story():
        async with running(role="decode") as decode, aiohttp.ClientSession() as session:
            async with running(role="prefill") as prefill:
                _, first = await completion(session, url(prefill), **LEG)
            given = {"kv_transfer_params": first["kv_transfer_params"]}
            assert (await completion(session, url(decode), **given))[0] == 500

    asyncio.run(story())


def test_a_name_that_is_none_gives_nothing():
    async def story():
        async with running() as emulator:
            assert not emulator.fleet.transfer.give("cmpl-x", 5)
            assert not emulator.fleet.transfer.give("cmpl-x-7-0000000000000005", 5)
            assert not emulator.fleet.transfer.give("cmpl-x-7-0000000000000005", 6)
            assert not emulator.fleet.transfer.give(f"cmpl-x-{'7' * 5000}-0000000000000005", 5)

    asyncio.run(story())


@pytest.mark.parametrize(("host", "named"), [("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "10.0.0.9"), ("::", "10.0.0.9")])
def test_a_prefill_leg_says_where_its_kv_is_and_how_long(host, named, monkeypatch):
    settings = EmulatorSettings(host=host, ranks=2, block_size=4, lease_s=30.0, speed=2.0, seed=3)
    transfer = Transfer(settings, [71, 72], lambda key, begun: (key, begun) == (9, 0xAB))
    work = Work(9, 10, 1, state=0xAB)
    monkeypatch.setattr("time.time", lambda: 1000.0)
    told = transfer.left("cmpl-x", work, 1, "10.0.0.9")
    assert told == {
        "remote_blocks_expiry_time": 1000.0 + 30.0 / 2.0,
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [[1, 2, 3]],
        "remote_engine_id": "emulated-71-3",
        "remote_request_id": "cmpl-x-9-00000000000000ab",
        "remote_host": named,
        "remote_port": 72,
        "tp_size": 1,
        "remote_num_tokens": 10,
        "transfer_mode": "pull",
    }
    assert transfer.give(told["remote_request_id"], 0xAB) and not transfer.give(told["remote_request_id"], 0xAC)


def test_kv_of_an_engine_at_another_address_with_the_same_port_is_asked_for_there(monkeypatch):
    asked = []

    async def pull(host, port, body):
        asked.append((host, port, json.loads(body)))
        return True

    monkeypatch.setattr("evenstep.emulator.transfer._pull", pull)
    transfer = Transfer(EmulatorSettings(host="10.0.0.7"), [71], lambda key, begun: False)
    name = "cmpl-x-9-00000000000000ab"
    assert not asyncio.run(transfer.fetch(("10.0.0.7", 71, name), 0xAB)) and not asked
    for source in (("10.0.0.8", 71, name), ("10.0.0.7", 72, name)):
        assert asyncio.run(transfer.fetch(source, 0xAB))
        assert asked.pop() == (*source[:2], {"remote_request_id": name, "prompt": "00000000000000ab"})
