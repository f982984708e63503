"""Calls to engines, judged: whose fault an answer is, and what counts as one."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from tests.gateway.running import DONE, END, EVENTS, chunk, engine, framed, raw, request, serving, until, whole

from evenstep.dispatch.settings import Dispatch
from evenstep.engines.requests.parsing import read_request
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.gateway.config.sections import ApiKey, Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve import exchange
from evenstep.gateway.serve.exchange import Exchange, Stream

CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "say", "max_tokens": 2, "stream": True}


def told(body):
    return b'{"error":{"message":"%b","type":"x"}}' % body


async def asked_of(script, headers=CLOSE, body=BODY, path="/v1/completions", keys=(), **worker):
    """What a client gets from one engine alone, and how often that was asked."""
    async with engine(script) as one, serving(Worker(url=one.url, **worker), keys=list(keys)) as server:
        return await raw(server, request(body, path, headers=headers)), one


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, 400),
        (404, 404),
        (413, 413),
        (422, 422),
        (429, 429),
        (408, 502),
        (500, 502),
        (503, 503),
        (302, 502),
        (401, 401),
    ],
)
def test_a_status_is_the_clients_fault_or_the_engines(status, expected):
    async def answers(number, head, body, writer):
        writer.write(whole(status, told(b"words at http://10.1.1.1:80/x")))

    answer, _ = asyncio.run(asked_of(answers))
    assert answer.startswith(b"HTTP/1.1 %d " % expected)
    assert b"10.1.1.1" not in answer
    assert (b"words at" in answer) == (expected == status and status < 500)


@pytest.mark.parametrize(("other", "expected"), [(429, 429), (500, 503), (503, 503)])
@pytest.mark.parametrize("after", ["Retry-After: 1\r\n", ""])
def test_where_every_engine_says_too_many_the_client_hears_it_and_when_to_come_back(other, expected, after):
    statuses = iter((other, 429))

    async def answers(number, head, body, writer):
        status = next(statuses)
        writer.write(whole(status, told(b"words"), more=after if status == 429 else ""))

    async def story():
        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            return await raw(server, request(BODY, headers=CLOSE))

    answer = asyncio.run(story())
    assert answer.startswith(b"HTTP/1.1 %d " % expected)
    assert b"\r\nRetry-After: 1\r\n" in answer
    assert (b'"words"' in answer) == (expected == 429)


@pytest.mark.parametrize(("statuses", "expected"), [((404, 404), 404), ((404, 500), 502), ((500, 404), 502)])
def test_a_model_does_not_exist_where_every_engine_says_so(statuses, expected):
    left = iter(statuses)

    async def answers(number, head, body, writer):
        writer.write(whole(next(left), b'{"error":{"message":"no m here","code":"model_not_found"}}'))

    async def story():
        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            return await raw(server, request(BODY, headers=CLOSE))

    answer = asyncio.run(story())
    assert answer.startswith(b"HTTP/1.1 %d " % expected)
    assert (b"no m here" in answer) == (expected == 404)


def test_a_key_that_is_wrong_is_the_clients_fault_only_if_it_is_the_clients():
    async def answers(number, head, body, writer):
        assert (b"authorization: Bearer theirs" in head) != (b"Authorization: Bearer ours" in head)
        writer.write(whole(401, told(b"no")))

    headers = CLOSE + "Authorization: Bearer theirs\r\n"
    answer, _ = asyncio.run(asked_of(answers, headers))
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
def test_an_engines_own_key_goes_in_place_of_the_clients_who_is_not_blamed_for_it(path):
    async def answers(number, head, body, writer):
        writer.write(whole(401, told(b"no")))

    headers = CLOSE + "Authorization: Bearer theirs\r\n"
    answer, one = asyncio.run(asked_of(answers, headers, api_key="ours", path=path))
    assert answer.startswith(b"HTTP/1.1 502 ")
    ((head, _),) = one.asked
    assert b"Authorization: Bearer ours" in head and b"theirs" not in head


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
@pytest.mark.parametrize(
    ("key", "keys", "own", "expected"),
    [
        ("Authorization: Bearer theirs\r\n", [], "", 401),
        ("", [], "", 401),
        ("", [], "ours", 502),
        ("Authorization: Bearer theirs\r\n", [ApiKey("theirs", "us")], "", 502),
    ],
)
def test_an_engines_key_is_the_clients_affair_where_the_clients_is_passed_on(path, key, keys, own, expected):
    async def answers(number, head, body, writer):
        writer.write(whole(401, told(b"no key")))

    answer, _ = asyncio.run(asked_of(answers, CLOSE + key, path=path, keys=keys, api_key=own))
    assert answer.startswith(b"HTTP/1.1 %d " % expected)
    assert (b"no key" in answer) == (expected == 401)


def test_a_refusal_that_never_ends_is_cut_short():
    async def answers(number, head, body, writer):
        writer.write(b"HTTP/1.1 400 X\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"x" * 70_000))
        await asyncio.sleep(0)

    answer, _ = asyncio.run(asked_of(answers))
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_silence_before_the_first_token_and_in_mid_stream_is_a_failure():
    async def story():
        async def silent(number, head, body, writer):
            writer.write(EVENTS)
            if number:
                writer.write(framed(chunk(" t", 1)))
            await asyncio.sleep(0)

        engines = Engines(first_byte_s=0.15, silence_s=0.15)
        async with engine(silent) as one, serving(one.url, engines=engines) as server:
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 504 ")
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert b"stream_broken" in answer
            assert answer.endswith(b"0\r\n\r\n")

    asyncio.run(story())


def test_what_brings_no_token_is_silence():
    class Deadline:
        at = 0.0

        def set(self, at):
            self.at = at

    client = SimpleNamespace(is_framed=True, paused=False, send=lambda data: None, forward=lambda data: None)
    model = SimpleNamespace(produced=lambda row, tokens, now_s: None, look_soon=lambda: None)
    exchange = SimpleNamespace(has_started=True, is_counted=True, client=client, model=model)
    backend = SimpleNamespace(endpoint=SimpleNamespace(settings=Engines(silence_s=7.0)))
    reply = ReplyStream(Dialect(), chat=False, client=UsageOptions(), engine=UsageOptions())
    leg = Stream(exchange, 1, backend, 0, reply)
    leg.connection = SimpleNamespace(deadline=Deadline())
    for data in (b": still here\n\n", chunk("", 0, ids=[])):
        assert leg.chunks(framed(data)) == framed(data)
        leg.body(data)
        assert not leg.connection.deadline.at
    leg.body(chunk(" a", 1, ids=[5]))
    assert leg.connection.deadline.at >= time.monotonic() + 6


def test_a_call_that_is_closed_ends_at_its_engine_also_if_a_bug_meets_its_stream():
    class Broken:
        produced = 3

        def so_far(self):
            raise ValueError("a bug")

    model = SimpleNamespace(now_s=time.monotonic, tell=lambda event: None, over=lambda exchange: None)
    asked = read_request("completions", b'{"model":"m","prompt":"say","stream":true}')
    found = Exchange(model, None, asked, "x", None)
    backend = SimpleNamespace(endpoint=SimpleNamespace(settings=Engines()))
    leg = found._leg = Stream(found, 1, backend, 0, Broken())
    with pytest.raises(ValueError, match="a bug"):
        found.abort(1)
    found.client_gone()
    assert leg.is_off


def test_what_is_in_one_write_of_the_engine_is_in_one_write_to_the_client():
    async def story():
        async def answers(number, head, body, writer):
            events = chunk(" a", 1) + chunk(" b", 2, "length")
            writer.write(EVENTS + framed(events) + framed(DONE) + END)

        async with engine(answers) as one, serving(one.url) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writes = []
            from evenstep.gateway.connections.client import Client

            send = Client.send
            Client.send = lambda self, data, last=False: (
                writes.append((data, last)),
                send(self, data, last),
            )[1]
            try:
                writer.write(request(BODY, headers=CLOSE))
                answer = await reader.read()
            finally:
                Client.send = send
                writer.close()
            assert len(writes) <= 2
            assert writes[-1][1]
            assert answer.count(b"data: ") == 3

    asyncio.run(story())


def test_bytes_behind_the_end_of_a_stream_do_not_reach_the_client_and_close_the_connection():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(EVENTS + framed(chunk(" a", 1, "stop")) + framed(DONE))
            await writer.drain()
            writer.write(framed(chunk(" more", 2)))
            await asyncio.sleep(0)

        async with engine(answers) as one, serving(one.url) as server:
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert b" more" not in answer
            assert answer.endswith(framed(DONE) + END) or answer.endswith(END)
            answer = await raw(server, request(BODY, headers=CLOSE))
            assert b" a" in answer

    asyncio.run(story())


GONE = told(b"the KV cache of the prompt could not be fetched")


@pytest.mark.parametrize(
    ("stream", "failure"),
    [
        (True, EVENTS + framed(b"data: " + GONE + b"\n\n") + END),
        (True, whole(500, GONE)),
        (False, whole(500, GONE)),
        (False, whole(200, GONE)),
    ],
)
def test_a_hand_over_that_an_engine_cannot_use_any_more_is_asked_for_again(stream, failure):
    """The lease of a prompt's KV cache ends while the request waits for a slot, or the gateway is stopped."""

    async def prefills(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":%d}}' % number))

    async def decodes(number, head, body, writer):
        assert b'"kv_transfer_params":{"of":%d}' % number in body
        if number == 0:
            writer.write(failure)
        elif stream:
            writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)
        else:
            writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def story():
        async with (
            engine(prefills) as one,
            engine(decodes) as two,
            serving(Worker(one.url, role="prefill"), two.url) as server,
        ):
            answer = await raw(server, request({**BODY, "stream": stream}, headers=CLOSE))
            assert b" 200 OK" in answer and b"error" not in answer
            assert (len(one.asked), len(two.asked)) == (2, 2)

    asyncio.run(story())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [500, 200])
def test_a_decode_engine_that_fails_with_every_hand_over_is_asked_once_while_others_are_there(status, stream):
    async def prefills(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":%d}}' % number))

    async def fails(number, head, body, writer):
        broken = EVENTS + framed(b"data: " + GONE + b"\n\n") + END if stream else whole(200, GONE)
        writer.write(broken if status == 200 else whole(500, GONE))

    async def decodes(number, head, body, writer):
        if stream:
            writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)
        else:
            writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def story():
        async with engine(prefills) as one, engine(fails) as two, engine(fails) as three, engine(decodes) as four:
            slow = Worker(four.url, slots=1)
            fleet = Worker(one.url, role="prefill"), Worker(two.url, slots=8), Worker(three.url, slots=8), slow
            async with serving(*fleet, policy="jsq") as server:
                for _ in range(4):
                    answer = await raw(server, request({**BODY, "stream": stream}, headers=CLOSE))
                    assert b" 200 OK" in answer and b"error" not in answer
                assert len(two.asked) <= 3 and len(three.asked) <= 3, "then each is ejected"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lease_s", "status", "is_up"),
    [(0.0, 500, True), (20.0, 500, False), (0.0, 429, False), (0.0, 503, False), (0.0, 302, False)],
)
def test_an_engine_is_not_to_blame_for_a_hand_over_that_waited_as_long_as_a_lease(lease_s, status, is_up, monkeypatch):
    """But for every error that no lease explains."""
    monkeypatch.setattr(exchange, "_LEASE_S", lease_s)

    async def story():
        free = {"one": asyncio.Event(), "two": asyncio.Event()}

        async def prefills(number, head, body, writer):
            writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":%d}}' % number))

        def decodes(name):
            async def answers(number, head, body, writer):
                if number == 0:
                    await free[name].wait()
                is_gone = b'"of":2}' in body
                writer.write(
                    whole(status, GONE) if is_gone else whole(200, b'{"choices":[{"text":"a","finish_reason":"stop"}]}')
                )

            return answers

        rules = Dispatch(breaker_failures=1, cooldown_s=1e6, backoff_s=0.0)
        async with engine(prefills) as first, engine(decodes("one")) as one, engine(decodes("two")) as two:
            fleet = Worker(first.url, role="prefill"), Worker(one.url, "one", slots=1), Worker(two.url, "two", slots=1)
            async with serving(*fleet, dispatch=rules) as server:
                asked = []
                for _ in range(3):
                    asked.append(asyncio.create_task(raw(server, request({**BODY, "stream": False}, headers=CLOSE))))
                    await until(lambda: len(first.asked) == len(asked) == len(one.asked) + len(two.asked) + (len(asked) > 2))
                free["one"].set()
                await until(lambda: len(first.asked) == 4)
                free["two"].set()
                assert all(b" 200 OK" in answer for answer in await asyncio.gather(*asked))
                workers = server.gateway.pools.all[0].dispatcher.snapshot()["workers"]
                assert [worker["is_up"] for worker in workers] == [is_up, True]

    asyncio.run(story())


def test_an_engine_that_is_to_continue_has_no_hand_over_to_blame(monkeypatch):
    """Only the first engine to decode gets one."""
    monkeypatch.setattr(exchange, "_LEASE_S", 0.0)

    async def prefills(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":%d}}' % number))

    called = []

    async def decodes(number, head, body, writer):
        called.append(b"kv_transfer_params" in body)
        if len(called) == 1:
            writer.write(EVENTS + framed(chunk(" a", 1)))
            return False
        if len(called) == 2:
            writer.write(whole(500, GONE))
        else:
            writer.write(EVENTS + framed(chunk(" b", 1, "length", prompt=(7, 8, 1))) + framed(DONE) + END)

    async def story():
        rules = Dispatch(breaker_failures=1, cooldown_s=1e6, backoff_s=0.0)
        async with engine(prefills) as first, engine(decodes) as one, engine(decodes) as two, engine(decodes) as three:
            decoders = [Worker(at.url, name) for at, name in ((one, "one"), (two, "two"), (three, "three"))]
            async with serving(Worker(first.url, role="prefill"), *decoders, dispatch=rules) as server:
                answer = await raw(server, request(BODY, headers=CLOSE))
                assert b" b" in answer and called == [True, False, False]
                workers = server.gateway.pools.all[0].dispatcher.snapshot()["workers"]
                assert sum(worker["is_up"] for worker in workers) == 1, "of the two that failed, each is to blame"

    asyncio.run(story())
