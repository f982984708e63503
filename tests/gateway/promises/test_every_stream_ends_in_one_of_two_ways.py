"""Promise 1: complete, or an error that says so and a clean end. Never a bare abort, never a silent loss."""

from __future__ import annotations

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story

TOKENS = 6
HTML = e.answer_bytes(200, b"<html><body>It works!</body></html>", kind="text/html")
LENGTHLESS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

#: What an engine does to a request before a token of it has come.
BEFORE = {
    "closes the connection": e.raw(b"", close=True),
    "resets the connection": e.cut(0, reset=True),
    "half a head": e.raw(b"HTTP/1.1 200 OK\r\nContent-", close=True),
    "not HTTP": e.raw(b"SSH-2.0-OpenSSH_9.2\r\n", close=True),
    "HTML with 200": e.raw(HTML),
    "an empty stream": e.raw(e.STREAM + e.LAST),
    "a stream of [DONE] alone": e.raw(e.STREAM + e.chunk(b"data: [DONE]\n\n") + e.LAST),
    "an empty body": e.raw(e.answer_bytes(200, b"")),
    "an empty JSON object": e.raw(e.answer_bytes(200, b"{}")),
    "a JSON list": e.raw(e.answer_bytes(200, b"[]")),
    "invalid JSON": e.raw(e.answer_bytes(200, b'{"choices":[{"text":"a"')),
    "no content": e.raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a body shorter than it says": e.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}", close=True),
    "an error object with 200": e.raw(e.answer_bytes(200, b'{"error":{"message":"no"},"object":"error"}')),
    "an error event": e.after(0, e.event({"error": {"message": "broken", "code": 500}}), end="last"),
    "an event that is not JSON": e.after(0, e.chunk(b"data: {oops\n\n"), end="last"),
    "a bad chunk size": e.raw(e.STREAM + b"zz\r\nhello\r\n", close=True),
    "length and chunks": e.raw(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", close=True
    ),
    "two lengths": e.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}", close=True),
    "a 500": e.status(500),
    "a 503": e.status(503),
    "a redirect": e.status(307, {}, "Location: http://127.0.0.1:1/"),
    "only 100s": e.raw(b"HTTP/1.1 100 Continue\r\n\r\n", close=True),
    "a greeting, and nothing more": e.raw(b"SSH-2.0-OpenSSH_9.2\r\n", hang=True),
    "100s without an end": e.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, hang=True),
    "comments without an end": e.raw(e.STREAM + e.chunk(b": still here\n\n" * 5000) * 20, hang=True),
    "JSON that is not UTF-8": e.raw(e.answer_bytes(200, b'{"choices":[{"text":"\xff","finish_reason":"stop"}]}')),
    "a switch of protocols": e.raw(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", close=True
    ),
}

NONSENSE = {
    "choices": [{"index": 0, "text": " w2", "delta": {"content": " w2"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 10**17},
}
EMPTY = {
    "choices": [{"index": 0, "text": "", "delta": {}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}

#: What it does after two tokens.
AFTER = {
    "a clean end": e.after(2, end="last"),
    "a cut body": e.after(2),
    "a reset": e.after(2, end="reset"),
    "half a chunk": e.after(2, b"ff\r\ndata: {", end="close"),
    "half an event": e.after(2, e.chunk(b'data: {"choices":'), end="last"),
    "an error event": e.after(2, e.event({"error": {"message": "broken", "code": 500}}), end="last"),
    "an event that is not JSON": e.after(2, e.chunk(b"data: {oops\n\n"), end="last"),
    "an event that is no chunk": e.after(2, e.chunk(b'data: {"hello":1}\n\n'), end="last"),
    "[DONE] without a finish_reason": e.after(2, e.chunk(b"data: [DONE]\n\n"), end="last"),
    "invalid UTF-8": e.after(2, e.chunk(b'data: {"choices":[{"index":0,"text":"\xff"}]}\n\n'), end="last"),
    "a choice nobody asked for": e.after(2, e.event({"choices": [{"index": 3, "text": "?"}]}), end="last"),
    "a giant event": e.after(2, e.chunk(b"data: " + b"x" * (2 << 20)), end="hang"),
    "a bad chunk size": e.after(2, b"zz\r\n"),
    "a count beyond reason": e.after(2, e.event(NONSENSE), end="last"),
    "silence": e.after(2, end="hang"),
    "comments alone": e.humming(2, e.chunk(b": still here\n\n")),
    "empty chunks alone": e.humming(2, e.event(EMPTY)),
}
SOON = {"silence_s": 0.2}
KINDS = {"completion": {}, "chat": {"chat": True}}


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_fails_before_a_token_gives_an_error_object_where_there_is_no_other(kind):
    async def one():
        async with fleet(engines=1) as f:
            for name, fault in BEFORE.items():
                for stream in (True, False):
                    f.plan.otherwise = fault
                    reply = await answered(f.port, ask(tokens=TOKENS, stream=stream, **KINDS[kind]))
                    assert verdict(reply, TOKENS) == "refused", (name, stream, reply)
                    assert reply.status in (502, 503, 504), (name, reply)
            f.plan.otherwise = e.well
            assert verdict(await answered(f.port, ask(tokens=TOKENS, **KINDS[kind])), TOKENS) == "complete"

    story(one)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_breaks_a_stream_gives_an_error_event_where_there_is_no_other(kind):
    async def one():
        async with fleet(engines=1, engine_deadlines=SOON) as f:
            for name, fault in AFTER.items():
                f.plan.otherwise = fault
                reply = await answered(f.port, ask(tokens=TOKENS, **KINDS[kind]))
                if name == "a bad chunk size" and reply.status == 502:
                    continue  # it came in one read with the tokens, none of which was passed on
                assert verdict(reply, TOKENS) == "error", (name, reply)
                assert reply.text == e.text_of(2), name
                assert list(reply.events())[-1]["error"]["type"], name
            await f.empty()

    story(one)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_second_engine_makes_every_stream_complete(kind):
    async def one():
        async with fleet(engines=2, engine_deadlines=SOON) as f:
            for name, fault in [*BEFORE.items(), *AFTER.items()]:
                f.plan.next.append(fault)
                reply = await answered(f.port, ask(tokens=TOKENS, **KINDS[kind]))
                assert verdict(reply, TOKENS) == "complete", (name, reply)
            await f.empty()

    story(one)


async def every_cut(step: int, reset: bool, more: dict[str, object]) -> None:
    """The engine's answer cut at every so manieth byte: with another engine all is complete, without one nothing is silent."""
    async with fleet(engines=2) as f, fleet(engines=1) as alone:
        await answered(f.port, ask(tokens=TOKENS, **more))
        size = f.calls[-1].written
        assert size > 300
        for at in range(0, size, step):
            f.plan.next.append(e.cut(at, reset=reset))
            reply = await answered(f.port, ask(tokens=TOKENS, **more))
            assert verdict(reply, TOKENS) == "complete", (at, reply)
            alone.plan.next.append(e.cut(at, reset=reset))
            alone.plan.otherwise = e.cut(at, reset=reset)
            reply = await answered(alone.port, ask(tokens=TOKENS, **more))
            assert verdict(reply, TOKENS) in ("refused", "error", "complete"), (at, reply)
        await f.empty()
        await alone.empty()


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"chat": True}, {"stream": False}], ids=["completion", "chat", "whole"])
def test_a_stream_cut_at_any_byte_is_completed_or_said_to_be_broken(more):
    story(lambda: every_cut(37, False, more))


@pytest.mark.slow
@pytest.mark.parametrize(("reset", "step"), [(False, 1), (True, 5)], ids=["closed", "reset"])
@pytest.mark.parametrize("more", [{}, {"chat": True}, {"stream": False}], ids=["completion", "chat", "whole"])
def test_a_stream_closed_at_every_byte_or_reset_at_any_is_completed_or_said_to_be_broken(more, reset, step):
    story(lambda: every_cut(step, reset, more), limit_s=300)


def test_what_follows_a_complete_stream_changes_nothing():
    """Garbage after the end, bytes left over, a second answer: the client has its answer, the connection is not used again."""
    extra = {
        "garbage": b"garbage",
        "a second answer": e.answer_bytes(200, b'{"choices":[]}'),
        "a chunk after the last": e.chunk(b'data: {"choices":[{"index":0,"text":"more"}]}\n\n'),
    }

    async def one():
        async with fleet(engines=1) as f:
            for name, more in extra.items():
                f.plan.next.append(e.rewritten(lambda pieces, more=more: [*pieces, more]))
                first = await answered(f.port, ask(tokens=TOKENS))
                used = f.calls[-1].connection
                second = await answered(f.port, ask(tokens=TOKENS))
                assert verdict(first, TOKENS) == verdict(second, TOKENS) == "complete", name
                assert f.calls[-1].connection is not used, name

    story(one)


def test_events_are_read_in_every_spelling_the_standard_allows():
    def crlf(pieces):
        return [
            b"".join(pieces[:1]),
            *(again(piece.replace(b"\n\n", b"\r\n\r\n")) for piece in pieces[1:-1]),
            pieces[-1],
        ]

    def again(piece):
        data = piece.partition(b"\r\n")[2]
        return e.chunk(data[:-2])

    def comments(pieces):
        return [
            pieces[0],
            *(part for piece in pieces[1:-1] for part in (e.chunk(b": ping\n\n"), piece)),
            pieces[-1],
        ]

    def glued(pieces):
        body = b"".join(piece.partition(b"\r\n")[2][:-2] for piece in pieces[1:-1])
        return [pieces[0], e.chunk(body), pieces[-1]]

    def torn(pieces):
        body = b"".join(piece.partition(b"\r\n")[2][:-2] for piece in pieces[1:-1])
        return [pieces[0], *(e.chunk(body[i : i + 1]) for i in range(len(body))), pieces[-1]]

    async def one():
        async with fleet(engines=1) as f:
            for change in (crlf, comments, glued, torn):
                for kind in KINDS.values():
                    f.plan.next.append(e.rewritten(change))
                    reply = await answered(f.port, ask(tokens=TOKENS, **kind))
                    assert reply.whole and e.text_of(TOKENS) == spoken(reply), (change.__name__, reply)

    def spoken(reply):
        reply.body = b"\n\n".join(p for p in reply.body.replace(b"\r\n", b"\n").split(b"\n\n") if not p.startswith(b":"))
        return reply.text

    story(one)
