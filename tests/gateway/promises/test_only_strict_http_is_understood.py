"""Promise 8: what two parsers could read in two ways is refused; heads to engines are built anew; odd connections are not reused."""

from __future__ import annotations

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import RawClient, answered, ask, body_of, request, verdict
from tests.gateway.promises.fleet import fleet, story

BODY = body_of(tokens=2)
SIZE = len(BODY)
HIDDEN = request(BODY, "X-Hidden: yes")


def post(*lines: bytes, body: bytes = BODY, end: bytes = b"\r\n", host: bytes = b"Host: gateway") -> bytes:
    """A request of these head lines."""
    first = [b"POST /v1/completions HTTP/1.1", *([host] if host else [])]
    return end.join([*first, *lines, b"", b""]) + body


LENGTH = b"Content-Length: %d" % SIZE
SMUGGLED = {
    "length and chunks": post(LENGTH, b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    "chunks and length": post(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN),
    "two lengths": post(LENGTH, b"Content-Length: 0"),
    "the same length twice": post(LENGTH, LENGTH),
    "a list of lengths": post(b"Content-Length: %d, %d" % (SIZE, SIZE)),
    "a signed length": post(b"Content-Length: +%d" % SIZE),
    "a negative length": post(b"Content-Length: -1"),
    "a hexadecimal length": post(b"Content-Length: 0x10"),
    "a length with a space inside": post(b"Content-Length: 1 0"),
    "an empty length": post(b"Content-Length:"),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999999"),
    "a space before the colon": post(b"Content-Length : %d" % SIZE),
    "a space before a name": post(b" " + LENGTH),
    "a folded header": post(LENGTH, b"X-Folded: a", b" b"),
    "a folded length": post(b"Content-Length:", b" %d" % SIZE),
    "bare line feeds": post(LENGTH, end=b"\n"),
    "a bare line feed in the head": post(LENGTH + b"\nX-More: a"),
    "a bare carriage return in a value": post(LENGTH, b"X-More: a\rb"),
    "a carriage return before the end of a line": post(LENGTH + b"\r"),
    "a NUL in a value": post(LENGTH, b"X-More: a\x00b"),
    "a NUL in a name": post(LENGTH, b"X\x00More: a"),
    "a control character": post(LENGTH, b"X-More: a\x01b"),
    "two hosts": post(LENGTH, b"Host: other"),
    "the same host twice": post(LENGTH, b"Host: gateway"),
    "no host": post(LENGTH, host=b""),
    "an unknown coding": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "chunks before a coding": post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "chunks twice": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "chunks misspelt": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunks behind a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "chunks in HTTP/1.0": post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a chunk size that is none": post(b"Transfer-Encoding: chunked", body=b"zz\r\n\r\n"),
    "a signed chunk size": post(b"Transfer-Encoding: chunked", body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with 0x": post(b"Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": post(b"Transfer-Encoding: chunked", body=b"2\r\n{}}}\r\n0\r\n\r\n"),
    "a chunk that ends with a bare line feed": post(b"Transfer-Encoding: chunked", body=b"2\n{}\n0\n\n"),
    "a chunk size beyond 64 bits": post(b"Transfer-Encoding: chunked", body=b"fffffffffffffffff\r\n"),
    "no colon": post(LENGTH, b"JustWords"),
    "no name": post(LENGTH, b": value"),
    "a version that is none": post(LENGTH).replace(b"HTTP/1.1", b"HTTP/1.9"),
    "another protocol": post(LENGTH).replace(b"HTTP/1.1", b"HTCPCP/1.0"),
    "no version": post(LENGTH).replace(b" HTTP/1.1", b""),
    "a tab in the request line": post(LENGTH).replace(b"POST /", b"POST\t/"),
    "a space in the target": post(LENGTH).replace(b"/v1/completions", b"/v1/completions /x"),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "HTTP/2 without being asked": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("pieces", ["whole", "byte by byte"])
def test_what_could_be_read_in_two_ways_is_refused_and_reaches_no_engine(pieces):
    async def one():
        async with fleet(engines=1) as f:
            for name, data in SMUGGLED.items():
                client = await RawClient.to(f.port)
                client.send(*([data] if pieces == "whole" else (data[i : i + 1] for i in range(len(data)))))
                reply = await client.reply()
                await client.closed.wait()
                assert 400 <= reply.status < 500 or reply.status in (501, 505), (name, reply)
                assert reply.json["error"]["message"], name
                assert client.finished == 1, (name, "one answer, whatever follows it")
            assert not f.calls

    story(one)


def test_what_follows_a_request_is_another_request_or_nothing():
    async def one():
        async with fleet(engines=1) as f:
            client = (await RawClient.to(f.port)).send(ask(tokens=2) + ask(tokens=3))
            assert verdict(await client.reply(0), 2) == "complete"
            second = await client.reply(1)
            assert not second.status or verdict(second, 3) == "complete"
            client.leave()
            await f.empty()

    story(one)


def test_a_body_in_chunks_is_read_exactly():
    def chunked(step):
        parts = [e.chunk(BODY[i : i + step]) for i in range(0, SIZE, step)]
        return post(b"Transfer-Encoding: chunked", body=b"".join([*parts, e.LAST]))

    async def one():
        async with fleet(engines=1) as f:
            for step in (1, 7, SIZE):
                data = chunked(step)
                for at in (len(data) // 3, len(data) - 2):
                    client = (await RawClient.to(f.port)).send(data[:at])
                    client.send(data[at:])
                    assert verdict(await client.reply(), 2) == "complete"

    story(one)


def test_no_header_of_a_client_picks_a_rank_or_reaches_an_engine_unasked():
    sent = (
        "X-data-parallel-rank: 7",
        "x-DATA-parallel-RANK: 8",
        "X-Forwarded-For: 10.0.0.1",
        "Connection: keep-alive, X-Secret",
        "X-Secret: 1",
        "Cookie: a=b",
        "Authorization: Bearer mine",
        "Proxy-Authorization: Basic x",
        "TE: trailers",
        "Upgrade: h2c",
    )

    async def one():
        async with fleet(engines=1, keys=[{"key": "mine", "tenant": "a"}]) as f:
            for name in ("kv_transfer_params", "data_parallel_rank", "bootstrap_host"):
                reply = await answered(f.port, ask(tokens=2, headers=sent[:2] + sent[2:9], **{name: {"a": 1}}))
                assert verdict(reply, 2) == "complete", reply
                assert name not in f.calls[-1].asked
            for call in f.calls:
                found = {name.lower() for name, _ in call.headers}
                assert not found & {
                    "x-data-parallel-rank",
                    "x-secret",
                    "cookie",
                    "proxy-authorization",
                    "te",
                    "upgrade",
                }
                assert not call.header("authorization"), "a client's key is the gateway's business"
                assert len(call.header("host")) == len(call.header("content-length")) == 1

    story(one)


def test_the_rank_is_the_operators():
    async def one():
        async with fleet(engines=1, ranks=2) as f:
            for _ in range(4):
                assert verdict(await answered(f.port, ask(tokens=2, headers=("X-data-parallel-rank: 9",))), 2) == "complete"
            assert {tuple(call.header("x-data-parallel-rank")) for call in f.calls} <= {("0",), ("1",)}

    story(one)


def test_a_header_cannot_be_split_into_two():
    """What a client sends as an id of its own comes back, if at all, without a line of its own making."""

    async def one():
        async with fleet(engines=1) as f:
            for value in ("a%0d%0aX-Injected: 1", "a\tb", "é", "a" * 3000):
                client = (await RawClient.to(f.port)).send(ask(tokens=2, headers=(f"X-Request-Id: {value}",)))
                reply = await client.reply()
                assert "x-injected" not in reply.headers
                assert reply.status in (200, 400)
            for call in f.calls:
                assert all("\r" not in v and "\n" not in v for _, v in call.headers)

    story(one)


INPUTS = {
    "no JSON": b"{oops",
    "no object": b"[1]",
    "nothing": b"",
    "invalid UTF-8": b'{"model":"tiny","prompt":"\xff\xfe","max_tokens":2}',
    "a lone surrogate's half": b'{"model":"tiny","prompt":"\xed\xa0\x80","max_tokens":2}',
    "a key twice": b'{"model":"tiny","model":"other","prompt":"a"}',
    "a thousand brackets": b'{"model":"tiny","prompt":' + b"[" * 100_000,
    "a negative limit": b'{"model":"tiny","prompt":"a","max_tokens":-5}',
    "a limit that is text": b'{"model":"tiny","prompt":"a","max_tokens":"5"}',
    "no choices at all": b'{"model":"tiny","prompt":"a","n":0}',
    "NaN": b'{"model":"tiny","prompt":"a","temperature":NaN}',
}


def test_a_body_no_engine_could_use_is_refused_with_400():
    async def one():
        async with fleet(engines=1) as f:
            for name, body in INPUTS.items():
                reply = await answered(f.port, request(body))
                assert verdict(reply, 1) == "refused" and reply.status == 400, (name, reply)
                assert reply.json["error"]["type"], name
            assert not f.calls

    story(one)


def test_a_connection_on_which_an_engine_speaks_unasked_is_not_used_again():
    async def one():
        async with fleet(engines=1) as f:
            assert verdict(await answered(f.port, ask(tokens=2)), 2) == "complete"
            used = f.calls[-1].connection
            used.transport.write(e.answer_bytes(200, b'{"choices":[{"text":"poison","index":0}]}'))
            while used in f.engines[0].connections:
                await f.tick()
            reply = await answered(f.port, ask(tokens=2))
            assert verdict(reply, 2) == "complete" and b"poison" not in reply.body

    story(one)


def test_a_connection_is_used_again_when_nothing_was_odd():
    async def one():
        async with fleet(engines=1) as f:
            for stream in (True, False, True):
                assert verdict(await answered(f.port, ask(tokens=2, stream=stream)), 2) == "complete"
            assert len({call.connection for call in f.calls}) == 1

    story(one)
