"""HTTP as it comes over a socket: in any pieces, pipelined, malformed, too large, and left by the client."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest
from tests.emulator.running import drained, events, raw, request, running

from evenstep.emulator.connection import Connection

BODY = {"prompt": "split me", "max_tokens": 3, "stream": True, "ignore_eos": True}
CLOSE = "Connection: close\r\n"


def parts_of(answer):
    """Head and body of an answer, its chunks joined."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return head, rest
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            assert rest == b"\r\n"
            return head, body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def test_a_request_means_the_same_in_whatever_pieces_it_comes():
    async def story():
        async with running() as emulator:
            data = request(BODY, headers=CLOSE)
            whole = parts_of(await raw(emulator, data))[1]
            ids = [e["choices"][0]["text"] for e in events(whole)[:-1]]
            assert len(ids) == 3
            for cut in (1, 4, 17, len(data) // 2, len(data) - 1):
                body = parts_of(await raw(emulator, b"", pieces=[data[:cut], data[cut:]]))[1]
                assert [e["choices"][0]["text"] for e in events(body)[:-1]] == ids
            single = [data[i : i + 1] for i in range(len(data))]
            body = parts_of(await raw(emulator, b"", pieces=single))[1]
            assert [e["choices"][0]["text"] for e in events(body)[:-1]] == ids

    asyncio.run(story())


def test_a_chunked_body_is_read_and_100_continue_is_said():
    async def story():
        async with running() as emulator:
            head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n"
            whole = b'{"prompt":"x","max_tokens":1}'
            chunks = b"%x\r\n%b\r\n5\r\n%b\r\n0\r\n\r\n" % (len(whole) - 5, whole[:-5], whole[-5:])
            reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports[0][0])
            writer.write(f"{head}{CLOSE}\r\n".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.write(chunks)
            answer += await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")

    asyncio.run(story())


def test_pipelined_requests_are_answered_in_order():
    async def story():
        async with running() as emulator:
            stream = request(BODY)
            last = request(b"", "/health", "GET", CLOSE)
            models = request(b"", "/v1/models", "GET")
            answer = await raw(emulator, stream + models + last)
            assert [line.split(b"\r\n")[0] for line in answer.split(b"HTTP/1.1 ")[1:]] == [b"200 OK"] * 3
            assert answer.index(b"[DONE]") < answer.index(b"max_model_len")

    asyncio.run(story())


def test_http_1_0_gets_a_stream_without_chunks_that_ends_with_the_connection():
    async def story():
        async with running() as emulator:
            answer = await raw(emulator, request(BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"chunked" not in head
            assert events(body)[-1] == "[DONE]"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"NOT HTTP\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"400"),  # no Host
        (b"GET / HTTP/1.1\r\n" + b"X: %b\r\n" % (b"y" * 70000) + b"\r\n", b"431"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_connection_closed(data, status):
    async def story():
        async with running() as emulator:
            answer = await raw(emulator, data)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.count(b"HTTP/1.1 ") == 1

    asyncio.run(story())


def test_the_offer_of_an_upgrade_is_ignored_as_vllm_does():
    async def story():
        async with running() as emulator:
            offer = "Connection: close, Upgrade\r\nUpgrade: h2c\r\n"
            assert (await raw(emulator, request(b"", "/health", "GET", offer))).startswith(b"HTTP/1.1 200 OK")

    asyncio.run(story())


def test_a_body_that_is_too_large_is_refused_before_it_is_all_there(monkeypatch):
    monkeypatch.setattr("evenstep.emulator.connection._Rules.body_bytes", 1000)

    async def story():
        async with running() as emulator:
            head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"
            answer = await raw(emulator, head + b"x" * 1500)
            assert answer.startswith(b"HTTP/1.1 413")

    asyncio.run(story())


def test_a_client_that_leaves_frees_its_slot_and_its_memory():
    async def story():
        async with running(speed=1.0, overhead_s=0.005) as emulator:
            reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports[0][0])
            writer.write(request({**BODY, "max_tokens": 100_000}))
            await reader.readuntil(b"data: ")
            assert len(emulator.fleet.rank(0).running) == 1
            writer.transport.abort()
            await drained(emulator)
            assert emulator.fleet.rank(0).memory.used == 0
            assert emulator.fleet.rank(0).counts.finished["abort"] == 1

    asyncio.run(story())


def test_an_answer_that_comes_when_the_client_has_left_is_not_written():
    left, alive, transport = [], set(), mock.Mock()
    connection = Connection(lambda head, body, out: lambda: left.append(body), alive)
    connection.connection_made(transport)
    connection.data_received(request(BODY))
    connection.start()
    assert alive == {connection} and transport.write.call_count == 1 and not left
    connection.connection_lost(None)
    assert not alive and len(left) == 1
    connection.send(b"late", last=True)
    connection.reply(200, b"late")
    assert transport.write.call_count == 1 and not transport.close.called


def test_of_later_requests_64_kib_are_read_ahead_and_the_rest_when_they_are_next():
    async def story():
        served, transport = [], mock.Mock(**{"is_closing.return_value": False})
        connection = Connection(lambda head, body, out: served.append(body), set())
        connection.connection_made(transport)
        connection.data_received(request(b"1"))
        later = request(b"2" * 2**16)
        connection.data_received(later[: 2**16])
        assert not transport.pause_reading.called
        connection.data_received(later[2**16 :])
        assert transport.pause_reading.call_count == 1 and not transport.resume_reading.called and served == [b"1"]
        connection.reply(200, b"")
        await asyncio.sleep(0)
        assert transport.resume_reading.call_count == 1 and served == [b"1", b"2" * 2**16]
        connection.reply(200, b"")
        connection.data_received(request(b"3", headers="Connection: close\r\n"))
        assert served[2:] == [b"3"] and not transport.close.called
        connection.reply(200, b"")
        assert transport.close.call_count == 1

    asyncio.run(story())


def test_a_client_that_does_not_read_gets_every_token_when_it_does():
    async def story():
        async with running(overhead_s=0.01) as emulator:
            reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports[0][0], limit=1024)
            body = {**BODY, "max_tokens": 3000, "return_token_ids": True}
            writer.write(request({**body, "prompt": "slow reader"}, headers=CLOSE))
            await reader.readuntil(b"data: ")
            (connection,) = emulator._alive
            connection.pause_writing()
            await drained(emulator)
            connection.resume_writing()
            rest = await reader.read()
            while not reader.at_eof():
                rest += await reader.read()
            assert rest.count(b"data: ") < 2900
            assert b"[DONE]" in rest

    asyncio.run(story())
