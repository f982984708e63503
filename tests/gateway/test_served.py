"""One model's events, commands and ticks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
from msgspec import structs
from tests.gateway.running import (
    DONE,
    END,
    EVENTS,
    QUICK,
    STALLS,
    chunk,
    engine,
    framed,
    raw,
    request,
    serving,
    until,
)
from tests.gateway.test_deadline import HeldUp

from evenstep.dispatch import events as ev
from evenstep.dispatch.replay import replay
from evenstep.dispatch.settings import Dispatch, Settings, WorkerSpec
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.gateway.config.sections import Decisions, Engines, RequestClass
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve.exchange import Stream
from evenstep.gateway.serve.served import ServedModel

CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "say something of some length", "max_tokens": 1, "stream": True}


async def one_token(number, head, body, writer):
    writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)


def test_more_requests_than_slots_wait_and_are_all_served():
    async def story():
        async with engine(one_token) as one, serving(Worker(url=one.url, slots=2)) as server:
            answers = await asyncio.gather(*(raw(server, request(BODY, headers=CLOSE)) for _ in range(12)))
            assert all(answer.endswith(END) and b"[DONE]" in answer for answer in answers)
            found = server.gateway.snapshot()["models"]["m"]
            assert found["requests_total"] == {"200": 12}
            assert found["output_tokens_total"] == 12

    asyncio.run(story())


def test_who_waits_too_long_is_told_and_who_finds_the_pool_full_too():
    async def story():
        async def stalls(number, head, body, writer):
            return STALLS

        rules = Dispatch(ttl_s=0.3, pool_limit=1, gather_ms=0.0)
        async with engine(stalls) as one, serving(Worker(url=one.url, slots=1), dispatch=rules) as server:
            _, first = await asyncio.open_connection("127.0.0.1", server.port)
            first.write(request(BODY))
            await until(lambda: one.asked)
            second = asyncio.create_task(raw(server, request(BODY, headers=CLOSE)))
            (pool,) = server.gateway.pools.all
            await until(lambda: len(pool.dispatcher.pool) == 1)
            assert b"overloaded" in await raw(server, request(BODY, headers=CLOSE))
            answer = await second
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"pool_timeout" in answer
            assert b"\r\nRetry-After: " in answer
            first.close()

    asyncio.run(story())


def test_what_an_engine_tells_of_prompts_improves_the_next_estimate():
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            (pool,) = server.gateway.pools.all
            before = pool.sizes.bytes_per_token("m")
            await raw(server, request(BODY, headers=CLOSE))
            assert pool.sizes.bytes_per_token("m") > before

    asyncio.run(story())


def test_the_decision_log_replays_and_says_nothing_of_prompts(tmp_path):
    path = tmp_path / "decisions.jsonl"

    async def story():
        log = Decisions(path=str(path), salt="s")
        async with (
            engine(one_token) as one,
            engine(one_token) as two,
            serving(one.url, Worker(url=two.url, name="b"), decisions=log) as server,
        ):
            await asyncio.gather(*(raw(server, request(BODY, headers=CLOSE)) for _ in range(9)))

    asyncio.run(story())
    found = replay(str(path))
    assert found.decisions >= 1
    assert found.difference is None
    assert b"something" not in path.read_bytes()


def test_a_worker_that_fails_again_and_again_is_left_alone_until_it_answers_a_probe():
    async def story():
        broken = True

        async def fails(number, head, body, writer):
            return False if broken else await one_token(number, head, body, writer)

        slowly = structs.replace(QUICK, cooldown_s=0.3)
        async with (
            engine(fails) as one,
            engine(one_token) as two,
            serving(one.url, two.url, dispatch=slowly) as server,
        ):
            (pool,) = server.gateway.pools.all

            def is_up():
                return [worker.is_up for worker in pool.dispatcher.mirror.workers]

            for _ in range(200):
                assert b"[DONE]" in await raw(server, request(BODY, headers=CLOSE))
                if not all(is_up()):
                    break
            assert not all(is_up())
            asked = len(one.asked)
            broken = False
            await until(lambda: all(is_up()))
            for _ in range(50):
                await raw(server, request(BODY, headers=CLOSE))
            assert len(one.asked) > asked

    asyncio.run(story())


def test_after_the_end_nothing_is_decided_or_logged_any_more(tmp_path, caplog):
    async def story():
        log = Decisions(path=str(tmp_path / "d.jsonl"), salt="s")
        async with engine(one_token) as one, serving(one.url, decisions=log) as server:
            (pool,) = server.gateway.pools.all
            events = pool.dispatcher.now_s
            pool._tick_soon()
            server.gateway.pools.close()
            pool.probed(next(iter(pool.backends)), False)
            await asyncio.sleep(0)
            assert pool.dispatcher.now_s == events
        assert not caplog.records

    asyncio.run(story())


def test_a_bug_in_the_decision_costs_the_request_that_meets_it_and_no_other(caplog):
    async def story():
        async with engine(one_token) as one, serving(one.url) as server:
            (pool,) = server.gateway.pools.all
            arrivals = pool.dispatcher.arrivals
            arrived, broken = arrivals.arrived, [True]

            def breaks_once(events):
                if broken and broken.pop():
                    raise ValueError("a bug")
                return arrived(events)

            arrivals.arrived = breaks_once
            answers = await asyncio.gather(*(raw(server, request(BODY, headers=CLOSE)) for _ in range(3)))
            assert sorted(answer.split()[1] for answer in answers) == [b"200", b"200", b"500"]
            assert pool.requests == 0

    asyncio.run(story())
    assert "a request could not be served" in caplog.text


def test_who_leaves_before_the_dispatcher_heard_of_it_is_told_of_once():
    async def story():
        ended = []
        async with engine(one_token) as one, serving(one.url) as server:
            server.gateway.front.listen_to((ended.append,), (ended.append,))
            (pool,) = server.gateway.pools.all
            look, pool._look = pool._look, lambda: None  # the reads at hand are not done yet
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(BODY))
            await until(lambda: pool.requests)
            writer.transport.abort()
            await until(lambda: not pool.requests)
            look()
            assert [one.outcome for one in ended] == ["cancelled"]
            pool.dispatcher.check()
            assert pool.dispatcher.snapshot()["requests_present"] == 0

    asyncio.run(story())


def test_a_reload_without_a_predictor_takes_that_of_the_policy_and_an_equal_one_keeps_what_it_has_learned():
    async def story():
        async with engine(one_token) as one, serving(one.url, policy="br-h:horizon=5", predictor="survival") as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            deciding = pool.dispatcher.parts.deciding
            found, config = deciding.predictor, gateway.config
            gateway.reload(config)
            assert deciding.predictor is found
            gateway.reload(replace(config, predictor=""))
            assert deciding.predictor_text == "bounded"
            gateway.reload(replace(config, policy="best", predictor=""))
            assert deciding.predictor_text == "bounded:of=memorised"
            gateway.reload(replace(config, policy="jsq", predictor=""))
            gateway.reload(config)
            assert deciding.predictor_text == "survival"

    asyncio.run(story())


def test_a_reload_that_moves_classes_tells_the_dispatcher_their_new_numbers():
    async def story():
        fast, slow = RequestClass(weight=2.0), RequestClass()
        async with engine(one_token) as one, serving(one.url, classes={"fast": fast, "slow": slow}) as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            for names in ({"slow": slow, "fast": fast}, {"slow": slow}):
                gateway.reload(replace(gateway.config, classes=names))
            told = [event.classes for event, _ in pool.dispatcher.history if isinstance(event, ev.Reloaded)]
            assert told == [(2, 1), (1, 0)]

    asyncio.run(story())


def test_a_request_whose_body_comes_after_a_reload_keeps_the_class_of_its_head():
    async def story():
        fast, slow = RequestClass(weight=2.0), RequestClass()
        async with engine(one_token) as one, serving(one.url, classes={"fast": fast, "slow": slow}) as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            for now in ({"slow": slow, "fast": fast}, {"fast": fast}, {"slow": slow}):
                asked = request(BODY, headers=f"X-Evenstep-Class: fast\r\nExpect: 100-continue\r\n{CLOSE}")
                head, end, body = asked.partition(b"\r\n\r\n")
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(head + end)
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                gateway.reload(replace(gateway.config, classes=now))
                writer.write(body)
                assert b" 200 OK" in await reader.read()
                writer.close()
            seen = [event.request_class for event, _ in pool.dispatcher.history if isinstance(event, ev.Arrived)]
            assert seen == [2, 1, 0]

    asyncio.run(story())


def test_a_reload_reads_a_predictors_file_again_and_names_none_to_a_policy_that_asks_none(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("from evenstep.predict.survival import Survival\n\nclass Mine(Survival):\n    edition = 1\n")

    async def story():
        async with engine(one_token) as one, serving(one.url, policy="br-h:horizon=5", predictor=f"{mine}:Mine") as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            deciding = pool.dispatcher.parts.deciding
            assert deciding.predictor.edition == 1
            mine.write_text(mine.read_text().replace("1", "2"))
            gateway.reload(gateway.config)
            assert deciding.predictor.edition == 2

    async def without():
        async with engine(one_token) as one, serving(one.url, policy="jsq") as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            for policy in ("jsq", "br-h:horizon=5"):
                gateway.reload(replace(gateway.config, policy=policy))
                told = [event for event, _ in pool.dispatcher.history if isinstance(event, ev.Reloaded)]
                assert told[-1].predictor == "", "a replay with another policy takes that policy's own"
            assert pool.dispatcher.parts.deciding.predictor_text == "bounded"

    asyncio.run(story())
    asyncio.run(without())


class Turns(HeldUp):
    """A loop as uvloop's: each turn calls what timers are due, then what was to be called soon, and then reads sockets."""

    def __init__(self):
        super().__init__()
        self.soon = deque()

    def call_soon(self, call, *args):
        self.soon.append(lambda: call(*args))

    def turn(self, at_s, read=lambda: None):
        self.goes_on(at_s)
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        read()


def _one_that_runs_and_one_that_waits(loop):
    """A pool at time 100 with one slot, and its two requests: after 50 s they have lasted too long, or waited too long."""
    settings = Settings(gather_ms=0.0, total_s=50.0, ttl_s=50.0)
    pool = ServedModel("m", "jsq", "", settings, loop=loop, probe=mock.Mock(), removed=mock.Mock(), denied=mock.Mock())
    pool.backends["w"] = mock.Mock()
    pool.tell(ev.WorkerAdded(now_s=loop.now_s, spec=WorkerSpec(name="w", slots=1, scraped=False)))
    requests = [mock.Mock(), mock.Mock()]
    for one in requests:
        number = pool.number(one)
        pool.arrives(ev.Arrived(now_s=loop.now_s, request=number, prompt_tokens=1))
    for _ in range(3):
        loop.turn(loop.now_s)
    assert [one.decode.call_count for one in requests] == [1, 0]
    return pool, requests


def _pool(loop, *workers, requests, probe=None, **settings):
    """A pool of these workers at time 100, and its requests, which have arrived."""
    rules = Settings(**settings)
    pool = ServedModel("m", "jsq", "", rules, loop=loop, probe=probe, removed=mock.Mock(), denied=mock.Mock())
    for worker in workers:
        pool.backends[worker.name] = backend = mock.Mock(passing=0)
        backend.name = worker.name
        pool.tell(ev.WorkerAdded(now_s=loop.now_s, spec=worker))
    made = [mock.Mock() for _ in range(requests)]
    for one in made:
        pool.arrives(ev.Arrived(now_s=loop.now_s, request=pool.number(one), prompt_tokens=1))
    for _ in range(3):
        loop.turn(loop.now_s)
    return pool, made


def _stream(pool, sent, has_started=False):
    """The stream that answers the command `sent`."""
    client = mock.Mock(is_framed=False, paused=False)
    exchange = SimpleNamespace(has_started=has_started, is_counted=True, client=client, model=pool, start=mock.Mock())
    reply = ReplyStream(Dialect(), chat=False, client=UsageOptions(), engine=UsageOptions())
    leg = Stream(exchange, sent.leg, mock.Mock(endpoint=SimpleNamespace(settings=Engines())), sent.row, reply)
    leg.connection = mock.Mock()
    return leg


def test_the_first_token_of_a_stream_frees_its_prefiller_at_once():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        workers = (WorkerSpec(name=name, role=name, slots=1, scraped=False) for name in ("prefill", "decode"))
        pool, (one, other) = _pool(loop, *workers, requests=2)
        (sent,) = one.prefill.call_args.args[:1]
        pool.tell(ev.PrefillDone(now_s=loop.now_s, request=sent.request, leg=sent.leg))
        loop.turn(100.1)
        leg = _stream(pool, one.decode.call_args.args[0])
        loop.turn(100.1)
        assert not other.prefill.called
        loop.turn(100.2, read=lambda: leg.body(chunk(" a", 1)))
        loop.turn(100.2)
        assert other.prefill.called


def test_the_first_token_from_another_engine_ejects_the_one_that_broke_off_at_once():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        workers = (WorkerSpec(name=name, slots=1, scraped=False) for name in "ab")
        pool, (one,) = _pool(loop, *workers, requests=1, breaker_failures=1, probe=(probe := mock.Mock()))
        (sent,) = one.decode.call_args.args[:1]
        loop.turn(100.1, read=lambda: _stream(pool, sent).body(chunk(" a", 1)))
        loop.turn(100.1)
        pool.tell(ev.Failed(now_s=100.2, request=sent.request, leg=sent.leg, kind="stream"))
        for _ in range(3):
            loop.turn(100.2)
        assert [ejected for ejected, *_ in pool.work()] == [False, False]
        leg = _stream(pool, one.resume.call_args.args[0], has_started=True)
        loop.turn(100.3, read=lambda: leg.body(chunk(" b", 1)))
        for _ in range(3):
            loop.turn(100.3)
        assert [ejected for ejected, *_ in pool.work()] == [name == sent.worker for name in pool.backends]
        loop.turn(200.0)
        loop.turn(200.0)
        assert probe.called


def test_a_round_follows_the_last_chunk_of_a_step_and_not_an_earlier_one():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        pool, (one, two, three, four) = _pool(
            loop, WorkerSpec(name="w", slots=3, scraped=False), requests=4, gather_ms=1e6, ttl_s=1e9, total_s=1e9
        )
        first, second, third = (found.decode.call_args.args[0] for found in (one, two, three))
        for now_s in (100.1, 100.2):
            for sent in (first, second, third):
                loop.turn(now_s, read=lambda sent=sent, now_s=now_s: pool.produced(sent.row, 1, now_s))
        loop.turn(100.2)
        loop.turn(100.3, read=lambda: pool.produced(first.row, 1, 100.3))
        pool.finished(one, first.leg)
        loop.turn(100.3, read=lambda: pool.produced(second.row, 1, 100.3))
        for _ in range(3):
            loop.turn(100.3)
        assert not four.decode.called
        loop.turn(100.3, read=lambda: pool.produced(third.row, 1, 100.3))
        loop.turn(100.3)
        assert four.decode.called


@pytest.mark.parametrize("looks_first", [False, True])
def test_a_bug_in_the_count_of_a_chunk_costs_no_other_request_its_end(looks_first):
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        pool, (one, other, third) = _pool(loop, WorkerSpec(name="w", slots=2, scraped=False), requests=3)
        first, second = (found.decode.call_args.args[0] for found in (one, other))
        with mock.patch.object(pool.dispatcher.deliveries, "_deliver", side_effect=RuntimeError("a bug")):
            pool.produced(first.row, 1, 100.1)
            if looks_first:
                pool.finished(other, second.leg, output_tokens=3)
            with pytest.raises(RuntimeError, match="a bug"):
                loop.turn(100.1) if looks_first else pool.finished(other, second.leg)
        if not looks_first:
            pool.tell(ev.Tick(now_s=100.2))
        for _ in range(3):
            loop.turn(100.2)
        assert third.decode.called
        assert pool.dispatcher.snapshot()["requests_total"]["200"] == 1


def test_an_answer_that_came_while_the_process_was_stopped_is_complete_though_it_is_overdue_by_now():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        pool, (one, _) = _one_that_runs_and_one_that_waits(loop)
        (sent,) = one.decode.call_args.args[:1]
        loop.turn(170.0, read=lambda: pool.finished(one, sent.leg, 1, 1))
        for _ in range(3):
            loop.turn(170.0)
        assert not one.reject.called
        assert pool.dispatcher.snapshot()["requests_total"]["200"] == 1


def test_a_tick_that_was_due_before_the_process_was_stopped_judges_by_the_time_before():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        pool, (one, _) = _one_that_runs_and_one_that_waits(loop)
        pool._tick_soon()
        (sent,) = one.decode.call_args.args[:1]
        loop.timers, timers = [], loop.timers  # the stop ends before they are looked at
        loop.turn(170.0, read=lambda: pool.finished(one, sent.leg, 1, 1))
        loop.timers += timers
        loop.turn(170.0)
        assert not one.reject.called
        assert pool.dispatcher.snapshot()["requests_total"]["200"] == 1


def test_without_an_answer_requests_end_when_they_are_overdue():
    loop = Turns()
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        _, requests = _one_that_runs_and_one_that_waits(loop)
        for _ in range(4):
            loop.turn(150.0)
        assert [one.reject.call_args.args[0].reason for one in requests] == ["overdue", "expired"]
