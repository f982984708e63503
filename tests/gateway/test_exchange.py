"""A request from its arrival to the last byte of its answer, through engines that fail in every way."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import get_args

import aiohttp
import openai
import pytest
from tests.emulator.running import events, running, url
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    STALLS,
    base,
    chunk,
    engine,
    framed,
    no_more_files,
    raw,
    request,
    serving,
    until,
    whole,
)

from evenstep.dispatch.commands import Broken
from evenstep.dispatch.settings import Dispatch
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve.exchange import _WHY

BODY = {"model": "m", "prompt": "say", "max_tokens": 4, "stream": True}
CLOSE = "Connection: close\r\n"
CHAT = [{"role": "user", "content": "say something"}]


def test_every_reason_of_a_broken_stream_has_words():
    assert set(_WHY) == set(get_args(Broken))


def stream_of(answer):
    """The events of a raw answer, whose body is chunked or not."""
    head, _, body = answer.partition(b"\r\n\r\n")
    out = b""
    while b"chunked" in head and body:
        size, _, body = body.partition(b"\r\n")
        out += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return head, out or body


async def tokens(writer, count, start=1, ids=False, finish=True):
    """So many tokens of an answer, an event each."""
    for n in range(start, start + count):
        last = finish and n == start + count - 1
        writer.write(framed(chunk(f" t{n}", n, "length" if last else None, [100 + n] if ids else None)))
    await writer.drain()


async def fine(number, head, body, writer):
    writer.write(EVENTS)
    await tokens(writer, 4)
    writer.write(framed(DONE) + END)


async def fine_whole(number, head, body, writer):
    text = {
        "id": "x",
        "choices": [{"index": 0, "text": " t", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1},
    }
    writer.write(whole(200, json.dumps(text).encode()))


async def dies(number, head, body, writer):
    return False


async def redirects(number, head, body, writer):
    writer.write(whole(307, b"", more="Location: http://elsewhere/\r\n"))


async def answers_html(number, head, body, writer):
    writer.write(whole(200, b"<html>", "text/html"))


async def is_another_server(number, head, body, writer):
    writer.write(whole(404, b"<html>default backend - 404</html>", "text/html"))


async def is_empty(number, head, body, writer):
    writer.write(EVENTS + END)


async def only_a_head(number, head, body, writer):
    writer.write(EVENTS + framed(b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'))
    await writer.drain()
    return False


async def breaks_off_in_its_first_event(number, head, body, writer):
    writer.write(EVENTS + framed(b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n'))
    await writer.drain()
    return False


async def is_busy(number, head, body, writer):
    writer.write(whole(503, b'{"error":{"message":"at http://10.0.0.1:80"}}', more="Retry-After: 1\r\n"))


async def garbles(number, head, body, writer):
    writer.write(EVENTS + framed(b"data: {not json\n\n") + END)


async def has_no_framing(number, head, body, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc")


async def cuts_json(number, head, body, writer):
    writer.write(whole(200, b'{"choices":[{"index":0,'))


EARLY = [
    dies,
    redirects,
    answers_html,
    is_another_server,
    is_empty,
    only_a_head,
    garbles,
    has_no_framing,
    breaks_off_in_its_first_event,
]


@pytest.mark.parametrize("bad", EARLY, ids=lambda f: f.__name__)
def test_what_fails_before_its_first_token_is_answered_by_another_engine(bad):
    async def story():
        async with engine(bad) as first, engine(fine) as second, serving(first.url, second.url) as server:
            for _ in range(8):  # ties are drawn by chance: both are asked first
                head, body = stream_of(await raw(server, request(BODY, headers=CLOSE)))
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert [e["choices"][0]["text"] for e in events(body)[:-1]] == [" t1", " t2", " t3", " t4"]
                assert body.endswith(DONE)
            assert 0 < len(first.asked) <= 3
            assert len(second.asked) == 8

    asyncio.run(story())


def test_another_server_at_an_engines_address_is_ejected():
    async def story():
        rules = Dispatch(breaker_failures=1, cooldown_s=1e6)
        async with (
            engine(is_another_server) as first,
            engine(fine) as second,
            serving(first.url, second.url, dispatch=rules) as server,
        ):
            for _ in range(20):  # ties are drawn by chance
                assert b" 200 OK" in await raw(server, request(BODY, headers=CLOSE))
            assert (len(first.asked), len(second.asked)) == (1, 20)

    asyncio.run(story())


def test_an_engine_that_closes_each_generation_is_ejected_though_other_requests_keep_its_connections():
    """A kept connection may have been closed before the request, so each second generation goes on a new one."""

    async def only_embeds(number, head, body, writer):
        if b" /v1/embeddings " not in head:
            return False
        writer.write(whole(200, b"{}"))

    async def story():
        rules = Dispatch(breaker_failures=3, cooldown_s=1e6, backoff_s=0.0)
        generation = request({**BODY, "stream": False}, headers=CLOSE)
        embedding = request({"model": "m"}, "/v1/embeddings", headers=CLOSE)
        async with (
            engine(only_embeds) as first,
            engine(fine_whole) as second,
            serving(first.url, second.url, dispatch=rules) as server,
        ):
            for _ in range(30):  # ties are drawn by chance
                for asked in (embedding, generation):
                    assert b" 200 OK" in await raw(server, asked)
            workers = server.gateway.pools.all[0].dispatcher.snapshot()["workers"]
            assert [worker["is_up"] for worker in workers] == [False, True]
            assert sum(b" /v1/completions " in head for head, _ in first.asked) == 6

    asyncio.run(story())


def test_engines_behind_a_proxy_that_closes_every_kept_connection_stay_in_the_fleet():
    def once():
        seen = set()

        async def answers(number, head, body, writer):
            if writer in seen:
                return False
            seen.add(writer)
            await fine_whole(number, head, body, writer)

        return answers

    async def story():
        rules = Dispatch(breaker_failures=1, cooldown_s=1e6, backoff_s=0.0)
        async with (
            engine(once()) as first,
            engine(once()) as second,
            serving(first.url, second.url, dispatch=rules) as server,
        ):
            for _ in range(20):
                assert b" 200 OK" in await raw(server, request({**BODY, "stream": False}, headers=CLOSE))
            workers = server.gateway.pools.all[0].dispatcher.snapshot()["workers"]
            assert [worker["is_up"] for worker in workers] == [True, True]

    asyncio.run(story())


@pytest.mark.parametrize("bad", [dies, redirects, answers_html, is_busy, cuts_json, fine], ids=lambda f: f.__name__)
def test_an_answer_that_does_not_stream_is_judged_whole(bad):
    async def story():
        body = {**BODY, "stream": False}
        async with (
            engine(bad) as first,
            engine(fine_whole) as second,
            serving(first.url, second.url) as server,
        ):
            for _ in range(2):
                answer = await raw(server, request(body, headers=CLOSE))
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"] == " t"
            assert second.asked and b"return_token_ids" not in second.asked[0][1], "only a stream can go on elsewhere"

    asyncio.run(story())


def test_where_every_engine_fails_the_client_is_told_once_each_was_tried():
    async def story():
        async with (
            engine(dies) as first,
            engine(redirects) as second,
            serving(first.url, second.url) as server,
        ):
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "engine_failed"
            assert b"127.0.0.1" not in answer
            assert (len(first.asked), len(second.asked)) == (1, 1)

    asyncio.run(story())


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("said", "status"),
    [(405, 405), (413, 413), (422, 422), (429, 429), (500, 502), (503, 503), (404, 404), (0, 504)],
)
def test_a_request_is_counted_by_the_status_that_its_client_got(said, status, is_streamed):
    async def story():
        async def answers(number, head, body, writer):
            if not said:
                return STALLS
            writer.write(whole(said, b'{"error":{"message":"The model `m` does not exist.","code":"model_not_found"}}'))

        quick = Engines(first_byte_s=0.05, answer_s=0.05)
        async with engine(answers) as only, serving(Worker(only.url, models=["m"]), engines=quick) as server:
            answer = await raw(server, request({**BODY, "stream": is_streamed}, headers=CLOSE))
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
            found = server.gateway.snapshot()
            assert found["models"]["m"]["requests_total"] == found["gateway"]["answers_total"] == {str(status): 1}

    asyncio.run(story())


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_request_is_told_to_come_again_where_the_gateway_may_open_no_more_files(is_streamed):
    async def story():
        async with engine(fine) as only, serving(only.url) as server:
            no_more_files(server)
            answer = await raw(server, request({**BODY, "stream": is_streamed}, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 1\r\n" in answer
            assert not only.asked

    asyncio.run(story())


def test_a_request_that_waited_too_long_is_told_how_long_it_waited():
    async def story():
        async def stalls(number, head, body, writer):
            return STALLS

        rules = Dispatch(ttl_s=60.0)
        async with engine(stalls) as only, serving(Worker(only.url, slots=1), dispatch=rules) as server:
            _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
            leaves.write(request(BODY))
            await until(lambda: only.asked)
            waits = asyncio.create_task(raw(server, request(BODY, headers=CLOSE)))
            await until(lambda: server.gateway.pools.all[0].requests == 2)
            gateway = server.gateway
            gateway.reload(replace(gateway.config, dispatch=Dispatch(ttl_s=0.3)))
            gateway.reload(replace(gateway.config, dispatch=Dispatch(ttl_s=0.2)))
            assert b"waited 0.2 s for a free slot" in await waits
            leaves.close()

    asyncio.run(story())


async def is_asked_too_much(number, head, body, writer):
    writer.write(whole(429, b'{"error":{"message":"come back later"}}'))


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (dies, 503, b"An engine failed the request, and no other was free in time."),
        (is_asked_too_much, 429, b"come back later"),
    ],
)
def test_a_request_that_no_other_engine_was_there_for_is_not_said_to_have_waited_for_a_slot(script, status, said):
    async def story():
        dead = Worker(url="http://127.0.0.1:9", name="dead", models=["m"])
        rules = Dispatch(breaker_failures=1, cooldown_s=5.0, ttl_s=0.02, backoff_s=0.001)
        async with engine(script) as one, serving(one.url, dead, dispatch=rules) as server:
            await raw(server, request(BODY, headers=CLOSE))  # the dead one is ejected now
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert said in answer and b"\r\nRetry-After: 1\r\n" in answer

    asyncio.run(story())


def test_a_prompt_of_more_ids_than_any_engine_has_memory_for_is_refused_as_openai_does():
    async def story():
        async with engine(fine) as only, serving(Worker(only.url, kv_tokens=8)) as server:
            answer = await raw(server, request({**BODY, "prompt": list(range(9))}, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 400 ")
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
            assert error["message"] == "The prompt is longer than any engine's memory."
            assert not only.asked

    asyncio.run(story())


def test_an_engine_that_is_full_is_told_with_its_retry_after_and_without_its_address():
    async def story():
        async with engine(is_busy) as first, serving(first.url) as server:
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 1\r\n" in answer
            assert b"10.0.0.1" not in answer

    asyncio.run(story())


@pytest.mark.parametrize("status", [400, 501])
def test_what_an_engine_says_against_a_request_is_passed_on_and_tried_nowhere_else(status):
    async def story():
        async def refuses(number, head, body, writer):
            writer.write(
                whole(
                    status,
                    b'{"error":{"message":"max_tokens is too large","type":"BadRequestError","code":400}}',
                )
            )

        async with (
            engine(refuses) as first,
            engine(refuses) as second,
            serving(first.url, second.url) as server,
        ):
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"max_tokens is too large" in answer
            assert len(first.asked) + len(second.asked) == 1
            assert all(w["is_up"] for w in server.gateway.snapshot()["models"]["m"]["workers"])

    asyncio.run(story())


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_stream_that_breaks_goes_on_elsewhere_and_the_client_sees_one(cut):
    async def story():
        async def one(number, head, body, writer):
            sent = json.loads(body)
            writer.write(EVENTS)
            if isinstance(sent["prompt"], str):
                await tokens(writer, cut, ids=True, finish=False)
                return False
            assert sent["prompt"] == [7, 8, *range(101, 101 + cut)]
            assert sent["max_tokens"] == 4 - cut
            for n in range(1, 5 - cut):
                finish = "length" if n == 4 - cut else None
                ids = [100 + cut + n]
                event = chunk(f" t{cut + n}", n, finish, ids, name="cmpl-2", prompt=sent["prompt"])
                writer.write(framed(event))
            writer.write(framed(DONE) + END)

        told = []
        async with engine(one) as first, engine(one) as second, serving(first.url, second.url) as server:
            server.gateway.front.listen_to((told.append,), ())
            body = {**BODY, "stream_options": {"include_usage": False}}
            _, found = stream_of(await raw(server, request(body, headers=CLOSE)))
            *chunks, last = events(found)
            assert [c["choices"][0]["text"] for c in chunks] == [" t1", " t2", " t3", " t4"]
            assert {c["id"] for c in chunks} == {"cmpl-1"}
            assert "usage" not in chunks[0]
            assert (chunks[-1]["choices"][0]["finish_reason"], last) == ("length", "[DONE]")
            assert len(first.asked) == len(second.asked) == 1
            assert server.gateway.snapshot()["models"]["m"]["recompute_total"] == 1
        (ended,) = told  # to the second engine, what the client had is a part of the prompt
        assert (ended.prompt_tokens, ended.output_tokens) == (2, 4)

    asyncio.run(story())


def test_a_stream_that_breaks_after_its_last_token_is_closed_here():
    async def story():
        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 4, ids=True, finish=False)
            return False

        async with engine(one) as only, serving(only.url) as server:
            _, found = stream_of(await raw(server, request(BODY, headers=CLOSE)))
            *chunks, last = events(found)
            assert [c["choices"][0]["text"] for c in chunks] == [" t1", " t2", " t3", " t4", ""]
            assert (chunks[-1]["choices"][0]["finish_reason"], last) == ("length", "[DONE]")

    asyncio.run(story())


def test_what_cannot_be_joined_ends_with_an_error_event_and_a_clean_end():
    async def story():
        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 2, finish=False)
            return False

        async with engine(one) as first, engine(one) as second, serving(first.url, second.url) as server:
            for more in ({"n": 2}, {"logprobs": 1}):
                answer = await raw(server, request({**BODY, **more}, headers=CLOSE))
                _, found = stream_of(answer)
                assert events(found)[-1]["error"]["code"] == "stream_broken"
                assert answer.endswith(b"\r\n0\r\n\r\n")
            assert not any(b"return_token_ids" in body for _, body in first.asked + second.asked)
            assert server.gateway.snapshot()["models"]["m"]["requests_total"] == {"error": 2}

    asyncio.run(story())


def test_a_request_that_no_engine_can_continue_is_not_tried_on_each():
    """It has no text to join, and the engine told no ids."""

    async def story():
        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 2, finish=False)
            return False

        async with engine(one) as first, engine(one) as second, engine(one) as third:
            async with serving(first.url, second.url, third.url) as server:
                _, found = stream_of(await raw(server, request({**BODY, "prompt": [7, 8]}, headers=CLOSE)))
                assert "the engine told no ids of the answer" in events(found)[-1]["error"]["message"]
                assert server.gateway.snapshot()["models"]["m"]["recompute_total"] == 1
            assert len(first.asked + second.asked + third.asked) == 1

    asyncio.run(story())


def test_a_body_that_ends_after_its_stream_completes_it_once_and_keeps_the_connection():
    async def story():
        ends = asyncio.Event()

        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 4)
            writer.write(framed(DONE))
            await ends.wait()
            writer.write(END)
            ends.clear()

        async with engine(one) as only, serving(only.url) as server:
            for _ in range(2):
                assert (await raw(server, request(BODY, headers=CLOSE))).endswith(DONE + b"\r\n" + END)
                ends.set()
                (backend,) = server.gateway.pools.all[0].backends.values()
                await until(lambda backend=backend: backend.endpoint._idle)
            assert len(only.open) == 1
            found = server.gateway.snapshot()["models"]["m"]
            assert (found["requests_total"], found["late_events_total"]) == ({"200": 2}, 0)

    asyncio.run(story())


def test_the_last_chunk_waits_for_no_fingerprint_that_an_earlier_stream_told():
    """The engine tells it with the usage at the end, which the client has not asked for."""

    async def story():
        usage = (
            b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":4},"system_fingerprint":"f"}\n\n'
        )
        ends = asyncio.Event()

        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 4)
            if number:
                await ends.wait()
            writer.write(framed(usage) + framed(DONE) + END)

        async with engine(one) as only, serving(only.url) as server:
            assert b'"system_fingerprint":"f"' in await raw(server, request(BODY, headers=CLOSE))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(BODY, headers=CLOSE))
            async with asyncio.timeout(5):
                assert b'"finish_reason":"length"' in await reader.readuntil(b'"system_fingerprint":"f"')
            ends.set()
            assert (await reader.read()).endswith(framed(DONE) + END)
            writer.close()

    asyncio.run(story())


def test_with_nobody_left_to_go_on_the_stream_ends_with_an_error_event():
    async def story():
        async def one(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, 2, ids=True, finish=False)
            return False

        async with engine(one) as only, serving(only.url) as server:
            answer = await raw(server, request(BODY, headers=CLOSE))
            _, found = stream_of(answer)
            assert events(found)[-1]["error"]["code"] == "stream_broken"
            assert answer.endswith(b"\r\n0\r\n\r\n")

    asyncio.run(story())


@pytest.mark.parametrize("tokens_first", [0, 1])
def test_a_client_that_leaves_closes_the_engines_connection_though_nothing_flows(tokens_first):
    async def story():
        async def stalls(number, head, body, writer):
            writer.write(EVENTS)
            await tokens(writer, tokens_first, finish=False)
            return STALLS

        told = []
        async with engine(stalls) as only, serving(only.url) as server:
            server.gateway.front.listen_to((told.append,), ())
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(BODY))
            await until(lambda: only.asked)
            if tokens_first:
                await reader.readuntil(b" t1")
            writer.close()
            await asyncio.wait_for(only.left.wait(), 10.0)
            assert server.gateway.snapshot()["models"]["m"]["cancelled_total"] == 1
        (ended,) = told
        assert (ended.outcome, ended.status, ended.output_tokens) == ("cancelled", 200 * tokens_first, tokens_first)

    asyncio.run(story())


@pytest.mark.parametrize("engine_", ["vllm", "sglang"])
def test_ranks_behind_one_port_are_picked_by_header_and_their_words_are_understood(engine_):
    async def story():
        async with (
            running(ranks=2, groups=[2], dialect=engine_) as emulator,
            serving(Worker(url=url(emulator), ranks=2, engine=engine_), policy="round-robin") as server,
            aiohttp.ClientSession(base(server)) as session,
        ):
            for number in range(4):
                body = {
                    "model": "emulated",
                    "prompt": f"x {number}",
                    "max_tokens": 3,
                    "stream": True,
                    "ignore_eos": True,
                }
                headers = {"X-data-parallel-rank": "0"}  # of no use to a client
                async with session.post("/v1/completions", json=body, headers=headers) as answer:
                    found = events(await answer.read())
                assert found[-1] == "[DONE]"
                assert all(not chunk.get("usage") for chunk in found[:-1])
            done = [emulator.fleet.rank(n).counts.finished["length"] for n in range(2)]
            assert done == [2, 2]
            assert server.gateway.snapshot()["models"]["emulated"]["output_tokens_total"] == 12

    asyncio.run(story())


def test_several_answers_to_one_prompt_take_as_many_slots_and_are_counted_together():
    async def story():
        async with running() as emulator, serving(Worker(url=url(emulator), slots=3)) as server:
            body = {**BODY, "model": "emulated", "n": 2, "ignore_eos": True}
            answers = await asyncio.gather(*(raw(server, request(body, headers=CLOSE)) for _ in range(3)))
            for answer in answers:
                *chunks, done = events(stream_of(answer)[1])
                assert sorted(c["choices"][0]["index"] for c in chunks) == [0] * 4 + [1] * 4
                assert done == "[DONE]"
            assert server.gateway.snapshot()["models"]["emulated"]["output_tokens_total"] == 24
            for more, field in ({"n": 4}, "n"), ({"n": 1, "best_of": 1, "prompt": ["a"] * 4}, "prompt"):
                answer = await raw(server, request({**body, **more}, headers=CLOSE))
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["param"] == field

    asyncio.run(story())


def test_an_engine_that_counts_nothing_is_estimated():
    async def story():
        async def plain(number, head, body, writer):
            assert b"stream_options" not in body
            writer.write(EVENTS)
            for n in range(1, 4):
                writer.write(framed(chunk(f" t{n}", n, "stop" if n == 3 else None, usage=False)))
            writer.write(framed(DONE) + END)

        async with engine(plain) as one, serving(Worker(url=one.url, engine="openai")) as server:
            _, found = stream_of(await raw(server, request(BODY, headers=CLOSE)))
            assert len(events(found)) == 4
            assert server.gateway.snapshot()["models"]["m"]["output_tokens_total"] == 3

    asyncio.run(story())


def test_the_openai_package_streams_and_asks_through_it():
    async def story():
        async with (
            running(ranks=2, port_per_rank=True) as emulator,
            serving(url(emulator, 0), url(emulator, 1)) as server,
            openai.AsyncOpenAI(base_url=f"{base(server)}/v1", api_key="none", max_retries=0) as api,
        ):
            assert [m.id async for m in api.models.list()] == ["emulated"]
            more = {"extra_body": {"ignore_eos": True}}
            said = await api.chat.completions.create(model="emulated", messages=CHAT, max_completion_tokens=4, **more)
            stream = await api.chat.completions.create(
                model="emulated",
                messages=CHAT,
                max_completion_tokens=4,
                stream=True,
                stream_options={"include_usage": True},
                **more,
            )
            chunks = [c async for c in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == said.choices[0].message.content
            assert chunks[-1].usage == said.usage
            with pytest.raises(openai.NotFoundError, match="does not exist"):
                await api.completions.create(model="other", prompt="x")
            with pytest.raises(openai.BadRequestError, match="maximum context length"):
                await api.completions.create(model="emulated", prompt="x", max_tokens=10**7)

    asyncio.run(story())


def test_a_killed_rank_costs_no_request_and_no_token():
    """Every stream, of completions and of chats, is that of an engine that was not killed."""

    async def story():
        async with (
            running(ranks=3, groups=[1, 1, 1], port_per_rank=True, overhead_s=0.2) as emulator,
            running(ranks=1) as other,
            serving(*(url(emulator, n) for n in range(3))) as server,
            aiohttp.ClientSession() as session,
        ):

            async def text(where, path, body):
                async with session.post(f"{where}{path}", json={"model": "emulated", **body}) as answer:
                    found = events(await answer.read())
                assert found[-1] == "[DONE]", found[-1]
                choices = [c["choices"][0] for c in found[:-1] if c["choices"]]
                return "".join(c.get("text") or c.get("delta", {}).get("content", "") for c in choices), found[-2]["usage"]

            asked = [
                (
                    f"/v1/{path}",
                    {
                        **prompt,
                        "max_tokens": 12,
                        "ignore_eos": True,
                        "stream": True,
                        "stream_options": {"include_usage": True},
                    },
                )
                for n in range(6)
                for path, prompt in (
                    ("completions", {"prompt": f"tell {n}"}),
                    ("chat/completions", {"messages": [{"role": "user", "content": f"tell {n}"}]}),
                )
            ]
            running_ = asyncio.gather(*(text(base(server), *one) for one in asked))
            await until(lambda: server.gateway.snapshot()["models"]["emulated"]["ttft_seconds"]["count"] == 12)
            await session.post(f"{url(emulator, 0)}/emulator/fault", json={"fault": "kill-rank", "rank": 0})
            found = await running_
            assert found == await asyncio.gather(*(text(url(other), *one) for one in asked))
            assert server.gateway.snapshot()["models"]["emulated"]["recompute_total"] >= 1

    asyncio.run(story())


@pytest.mark.parametrize(("usage", "counted"), [(b',"usage":{"prompt_tokens":9,"completion_tokens":1}', 9), (b"", 2)])
def test_the_first_engine_that_counts_the_prompt_is_believed(usage, counted):
    async def prefills(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"finish_reason":"length"}],"kv_transfer_params":{}%b}' % usage))

    async def story():
        told = []
        async with (
            engine(prefills) as first,
            engine(fine_whole) as second,
            serving(Worker(first.url, role="prefill", models=["m"]), Worker(second.url, models=["m"])) as server,
        ):
            server.gateway.front.listen_to((told.append,), ())
            await raw(server, request({**BODY, "stream": False}, headers=CLOSE))
        assert [(one.prompt_tokens, one.output_tokens, one.tries) for one in told] == [(counted, 1, 2)]

    asyncio.run(story())


def test_prefill_and_decode_engines_serve_one_request_together():
    async def story():
        async with (
            running(role="prefill") as prefiller,
            running(role="decode") as decoder,
            running() as plain,
            serving(Worker(url=url(prefiller), role="prefill"), url(decoder)) as server,
            aiohttp.ClientSession() as session,
        ):
            for stream in (True, False):
                body = {
                    "model": "emulated",
                    "prompt": "a prompt of some length",
                    "max_tokens": 6,
                    "ignore_eos": True,
                    "stream": stream,
                }
                answers = []
                for where in (base(server), url(plain)):
                    async with session.post(f"{where}/v1/completions", json=body) as answer:
                        data = await answer.read()
                    found = events(data)[:-1] if stream else [json.loads(data)]
                    answers.append("".join(c["choices"][0]["text"] for c in found))
                assert answers[0] == answers[1]
            assert sum(prefiller.fleet.rank(0).counts.finished.values()) == 2
            assert sum(decoder.fleet.rank(0).counts.finished.values()) == 2

    asyncio.run(story())
