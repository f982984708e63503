"""Requests that are under way while workers join or leave, a drain begins, or a config changes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import functools

import pytest
from tests import clock
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    STALLS,
    chunk,
    config_of,
    engine,
    framed,
    raw,
    request,
    serving,
    until,
    whole,
)

from evenstep.gateway.config.sections import ApiKey, Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.server import Server

CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "say something", "max_tokens": 3}
ANSWER = b'{"choices":[{"finish_reason":"length","text":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}'
#: A prefiller's answer, with its hand-over.
PREFILLED = ANSWER.replace(b'"usage"', b'"kv_transfer_params":{},"usage"')


def looped(test, run=asyncio.run):
    """A test that is a coroutine, in a loop of its own."""

    @functools.wraps(test)
    def ran(**given):
        run(test(**given))

    return ran


#: One whose clock jumps: it waits for no time.
jumping = functools.partial(looped, run=clock.run)


def held(gate, answer=ANSWER):
    """An engine that answers once `gate` is set."""

    async def answers(number, head, body, writer):
        await gate.wait()
        writer.write(whole(200, answer))

    return answers


def asks(server, body=BODY, **more):
    return asyncio.create_task(raw(server, request(body, headers=CLOSE + more.pop("lines", ""), **more)))


def joins(server, url, **more):
    server.gateway.pools.add(Worker(url=url, **more).each()[0])


@pytest.mark.parametrize("role", ["prefill", "decode"])
@looped
async def test_requests_that_wait_are_sent_to_a_worker_that_joins(role):
    gate = asyncio.Event()
    answers = held(gate, PREFILLED if role == "prefill" else ANSWER)
    async with engine(answers) as one, engine(answers) as two, engine(held(gate)) as decoder:
        workers = [Worker(url=one.url, role=role, slots=1, models=["m"])]
        policy = {"policy": "br-0:bypass=True"}
        if role == "prefill":
            workers, policy = [*workers, Worker(url=decoder.url, models=["m"])], {}
        async with serving(*workers, **policy) as server:
            asked = [asks(server) for _ in range(5)]
            await until(lambda: server.gateway.pools.all[0].requests == 5)
            joins(server, two.url, role=role, slots=4, models=["m"])
            await until(lambda: two.asked)
            gate.set()
            assert [(await one)[9:12] for one in asked] == [b"200"] * 5


@looped
async def test_a_forwarded_request_is_answered_by_a_worker_that_leaves():
    gate = asyncio.Event()
    async with engine(held(gate, b'{"data":[1]}')) as one, serving(Worker(url=one.url, name="a", models=["m"])) as server:
        asked = asks(server, {"model": "m", "input": "x"}, path="/v1/embeddings", lines="Content-Type: application/json\r\n")
        await until(lambda: one.asked)
        server.gateway.pools.remove("a", True)
        await until(lambda: not server.gateway.workers())
        gate.set()
        assert (await asyncio.wait_for(asked, 5))[9:12] == b"200"
        await until(lambda: not one.open)


@looped
async def test_a_worker_may_come_back_under_its_name_before_the_old_one_is_empty():
    gate = asyncio.Event()
    async with (
        engine(held(gate)) as old,
        engine(held(gate)) as new,
        serving(Worker(url=old.url, name="a", models=["m"]), policy="jsq") as server,
    ):
        asked = asks(server)
        await until(lambda: old.asked)
        server.gateway.pools.remove("a", True)
        new.server.close()
        joins(server, new.url, name="a")  # it has to be asked which models it serves, and does not answer yet
        assert server.gateway.pools.unknown == ["a"]
        gate.set()
        assert (await asked)[9:12] == b"200"
        await until(lambda: not server.gateway.pools.all[0].backends)
        assert [one.url for one in server.gateway.workers()] == [new.url]
        server.gateway.pools.remove("a", True)
        assert not server.gateway.workers()


@jumping
async def test_a_whole_answer_has_its_patience_on_a_second_connection_too():
    async def answers(number, head, body, writer):
        if number == 1:  # it closes the idle connection just as the request comes
            return "close"
        await asyncio.sleep(0.6 if number == 2 else 0.0)
        writer.write(whole(200, ANSWER))

    patience = Engines(first_byte_s=0.3, answer_s=10.0)
    async with engine(answers) as one, serving(Worker(url=one.url, models=["m"]), engines=patience) as server:
        assert (await asks(server))[9:12] == b"200"
        await asyncio.sleep(1.05)  # a connection that was used a moment ago is not asked twice
        assert (await asks(server))[9:12] == b"200"


@jumping
async def test_an_answer_with_all_its_tokens_is_complete_when_its_worker_is_removed():
    async def all_but_the_end(number, head, body, writer):
        writer.write(EVENTS + b"".join(framed(chunk(" a", k, None, [k])) for k in (1, 2, 3)))
        return STALLS

    async def other(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" z", 1, "length", [9])) + framed(DONE) + END)

    async with (
        engine(all_but_the_end) as one,
        engine(other) as two,
        serving(Worker(url=one.url, name="a", models=["m"])) as server,
    ):
        asked = asks(server, BODY | {"stream": True})
        await until(lambda: one.asked)
        await asyncio.sleep(0.1)  # the tokens come
        joins(server, two.url, models=["m"])
        server.gateway.pools.remove("a", False)
        answer = await asked
        assert b'"finish_reason":"length"' in answer and b"[DONE]" in answer and not two.asked


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("usage", [False, True])
@jumping
async def test_an_answer_that_has_ended_gets_its_end_once_when_its_worker_is_removed(reason, others, usage):
    async def all_but_done(number, head, body, writer):
        writer.write(EVENTS + framed(chunk(" a", 1, None, [1])) + framed(chunk(" b", 2, None, [2])))
        writer.write(framed(chunk(" c", 3, reason, [3])))
        return STALLS

    async def other(number, head, body, writer):
        raise AssertionError("nothing is left to ask for")

    async with (
        engine(all_but_done) as one,
        engine(other) as two,
        serving(Worker(url=one.url, name="a", models=["m"])) as server,
    ):
        options = {"stream_options": {"include_usage": True}} if usage else {}
        limit = 3 if reason == "length" else 9
        asked = asks(server, BODY | {"stream": True, "max_tokens": limit, **options})
        await until(lambda: one.asked)
        await asyncio.sleep(0.1)  # the tokens come
        if others:
            joins(server, two.url, models=["m"])
        server.gateway.pools.remove("a", False)
        answer = await asked
        assert [answer.count(b'"text":" %b"' % text) for text in (b"a", b"b", b"c")] == [1, 1, 1]
        assert answer.count(b'"finish_reason":"') == answer.count(b'"finish_reason":"%b"' % reason.encode()) == 1
        assert answer.count(b'"usage":{') == usage and answer.count(b"[DONE]") == 1 and b"error" not in answer
        counted = server.gateway.snapshot()["models"]["m"]["requests_total"]
        assert {code: count for code, count in counted.items() if count} == {"200": 1}, "as the log says"


@looped
async def test_after_a_drain_no_model_gets_new_requests_not_even_one_that_came_since():
    async with engine(held(asyncio.Event())) as one, engine(held(asyncio.Event())) as two:
        server = Server(config_of(Worker(url=one.url, models=["m"])))
        await server.open()
        await server.ready()
        server.gateway.drain()
        joins(server, two.url, models=["other"])
        for model in ("m", "other"):
            assert (await asks(server, BODY | {"model": model}))[9:12] == b"503"
        await server.close()


@jumping
async def test_a_key_stays_here_when_a_reload_removes_all_keys_before_the_body_comes():
    heads = []

    async def answers(number, head, body, writer):
        heads.append(head)
        writer.write(whole(200, b"{}"))

    async with (
        engine(answers) as one,
        serving(Worker(url=one.url, models=["m"]), keys=[ApiKey(key="secret", tenant="t")]) as server,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        asked = request(
            b'{"model":"m"}',
            "/v1/embeddings",
            headers="Content-Type: application/json\r\nAuthorization: Bearer secret\r\n" + CLOSE,
        )
        writer.write(asked[:-5])
        await asyncio.sleep(0.05)
        server.gateway.reload(dataclasses.replace(server.gateway.config, keys=[]))
        writer.write(asked[-5:])
        assert (await reader.read())[9:12] == b"200"
        writer.close()
    assert b"secret" not in heads[0]


@looped
async def test_without_a_key_a_request_is_refused_before_its_body():
    async with (
        engine(held(asyncio.Event())) as one,
        serving(Worker(url=one.url, models=["m"]), keys=[ApiKey(key="k", tenant="t")]) as server,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = b"Authorization: Bearer wrong\r\nExpect: 100-continue\r\nContent-Length: 33000000\r\n\r\n"
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + lines)
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 401") and b"Connection: close" in answer
        writer.close()


@looped
async def test_trace_is_not_forwarded_with_the_engines_key():
    async with (
        engine(held(asyncio.Event())) as one,
        serving(Worker(url=one.url, models=["m"], api_key="engine-secret")) as server,
    ):
        assert (await raw(server, request(b"", "/v1/x", "TRACE", CLOSE)))[9:12] == b"404"
        assert not one.asked


@looped
async def test_an_event_that_echoes_a_long_prompt_passes():
    """Each token of the prompt comes with its log probabilities: some 150 bytes for each of its 4 bytes."""
    prompt = " tok" * 20_000
    event = b'data: {"choices":[{"index":0,"text":"x","logprobs":"' + b"x" * 3_000_000 + b'","finish_reason":null}]}\n\n'

    async def answers(number, head, body, writer):
        writer.write(EVENTS + framed(event) + framed(chunk(" a", 1, "length")) + framed(DONE) + END)

    async with engine(answers) as one, serving(Worker(url=one.url, models=["m"])) as server:
        body = {"model": "m", "prompt": prompt, "max_tokens": 1, "echo": True, "logprobs": 5, "stream": True}
        answer = await asks(server, body)
        assert answer[9:12] == b"200" and b"[DONE]" in answer and len(answer) > 3_000_000


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_is_gone_as_its_answer_ends_leaves_no_slot_taken(stream, monkeypatch):
    def gone(transport):
        transport.abort()
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    async def answers(number, head, body, writer):
        events = EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END
        writer.write(events if stream else whole(200, ANSWER))

    async def story():
        async with engine(answers) as one, serving(one.url) as server:
            monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "write_eof", gone)
            with contextlib.suppress(ConnectionError):
                await asks(server, BODY | {"stream": stream})
            await until(lambda: server.gateway.snapshot()["models"]["m"]["requests_total"] == {"200": 1})

    asyncio.run(story())
