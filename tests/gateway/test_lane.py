"""Requests passed by compiled code: what clients and engines get, what is counted, and what is left is the same as without."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.running import STALLS, engine, request, until, whole
from tests.gateway.running import serving as served

from evenstep import compiled
from evenstep.gateway import lane
from evenstep.gateway import lane_layout as at
from evenstep.gateway.lane import Lane, lane_on
from evenstep.gateway.sections import ApiKey, Dispatch, Engines, Limits
from evenstep.gateway.worker import Worker

BODY = {"model": "m", "prompt": "say", "max_tokens": 9}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "say"}], "max_tokens": 9}
USAGE = {"prompt_tokens": 7, "total_tokens": 10, "completion_tokens": 3}
# ruff: noqa: SIM117
pytestmark = pytest.mark.skipif(not lane._IS_POSSIBLE, reason="there is no lane here")


def serving(*workers, limits=None, **config):
    """A gateway with a lane."""
    return served(*workers, limits=replace(limits or Limits(), fast_path=True), **config)


def answer(text="a word", finish="length", usage=USAGE, **more):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    body = {
        "id": "c",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(body | more).encode()


@contextmanager
def watched():
    """Counts of whole answers that went through lanes, and of requests that did not stay there."""
    counts, answered, handed, turn = {"answers": 0, "handed": 0}, Lane._answered, Lane.hand_over, Lane._turn

    def answers(self, count):
        counts["answers"] += count
        answered(self, count)

    def turns(self, model, count, came):
        counts["answers"] += count
        turn(self, model, count, came)

    def hands(self, *args):
        counts["handed"] += 1
        return handed(self, *args)

    patch = pytest.MonkeyPatch()
    patch.setattr(Lane, "_answered", answers)
    patch.setattr(Lane, "_turn", turns)
    patch.setattr(Lane, "hand_over", hands)
    yield counts
    patch.undo()


class Caller:
    """A client's kept connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, body, path="/v1/completions", headers="", data=None):
        """The answer: head without the request's name, and body."""
        self.writer.write(data or request(body, path=path, headers=headers))
        return await self.heard()

    async def heard(self):
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        body = await self.reader.readexactly(int(re.search(rb"content-length: (\d+)", head, re.I)[1]))
        return re.sub(rb"X-Request-Id: [^\r]*", b"X-Request-Id: N", head), body


@asynccontextmanager
async def calling(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()


def whole_answers(body=None):
    async def answers(number, head, told, writer):
        writer.write(whole(200, body or answer()))

    return answers


class Pair:
    """An engine that answers as it is told, behind a gateway with a lane and behind one without; a connection to each."""

    def __init__(self):
        self.loop, self.answers, self.stack = asyncio.new_event_loop(), [answer()], AsyncExitStack()
        self.loop.run_until_complete(self.open())

    async def open(self):
        async def answers(number, head, body, writer):
            writer.write(whole(200, self.answers[0]))

        self.engine = await self.stack.enter_async_context(engine(answers))
        self.servers = [await self.stack.enter_async_context(serving(self.engine.url))]
        self.servers.append(await self.stack.enter_async_context(served(self.engine.url)))

    async def asked(self, server, story):
        """All that came of a story of requests on one connection: answers, what the engine got, what was counted."""
        (pool,), said = server.gateway.pools.all, []
        asked, meters = len(self.engine.asked), pool.dispatcher.meters
        before = (
            meters.output_tokens,
            meters.requests["200"],
            server.gateway.front.codes[200],
            meters.ttft_s.sums[1],
        )
        async with calling(server) as caller:
            for body, path, told in story:
                self.answers[0] = told
                said.append(await caller.ask(body, path=path))
            await until(lambda: not pool.requests)
        pool.dispatcher.check()
        after = (
            meters.output_tokens,
            meters.requests["200"],
            server.gateway.front.codes[200],
            meters.ttft_s.sums[1],
        )
        got = [
            (re.sub(rb"X-Request-Id: [^\r]*", b"", head), body) for head, body in self.engine.asked[asked:]
        ]
        return said, got, [b - a for a, b in zip(before, after, strict=True)]

    def ask(self, story):
        return [self.loop.run_until_complete(self.asked(server, story)) for server in self.servers]

    def close(self):
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.close()


TEXTS = st.text(st.sampled_from('aé漢"\\\n {[:,'), max_size=12)
BODIES = st.one_of(
    TEXTS.map(lambda text: (BODY | {"prompt": text}, "/v1/completions")),
    TEXTS.map(lambda text: (json.dumps(BODY | {"prompt": text}, ensure_ascii=False).encode(), "/v1/completions")),
    TEXTS.map(lambda text: (CHAT | {"messages": [{"role": "user", "content": text}]}, "/v1/chat/completions")),
    st.just((BODY | {"prompt": [1, 2, 3]}, "/v1/completions")),
    st.just((BODY | {"max_tokens": 8}, "/v1/completions")),
)  # fmt: skip
ANSWERS = st.one_of(
    TEXTS.map(answer), TEXTS.map(answer), TEXTS.map(answer), st.integers(1, 50).map(lambda n: answer("x" * 40 * n)),
    st.sampled_from([answer(usage=None), answer(error=None), answer(usage=USAGE | {"prompt_tokens": 0})]),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(BODIES, ANSWERS), min_size=4, max_size=12))
def test_a_client_and_an_engine_get_and_the_dispatcher_counts_the_same(pair, story):
    found, expected = pair.ask([(body, path, told) for (body, path), told in story])
    assert found == expected
    assert found[2][1] == len(story)


def told_times(times, script=None, **config):
    """So many requests over one connection, one after the other; answers, and counts of lanes."""

    async def story():
        async with (
            engine(script or whole_answers()) as one,
            serving(one.url, **config) as server,
            calling(server) as caller,
        ):
            with watched() as counts:
                return [await caller.ask(BODY | {"prompt": "x" * n}) for n in range(times)], counts

    return asyncio.run(story())


def test_nearly_all_requests_of_a_connection_go_through_it():
    said, counts = told_times(20)
    assert counts["answers"] >= 16
    assert all(body == answer() for _, body in said)


def test_requests_with_keys_prompts_of_many_sizes_and_many_clients_go_through_it():
    async def story():
        keys = [ApiKey(key="secret-key-1", tenant="a"), ApiKey(key="secret-key-2", tenant="b")]
        async with engine(whole_answers()) as one, serving(one.url, keys=keys) as server:
            async with AsyncExitStack() as stack:
                callers = [await stack.enter_async_context(calling(server)) for _ in range(16)]

                async def asks(number, caller):
                    for size in (1, 10, 3000, 8000, 30_000, 60_000, 5):
                        body = BODY | {"prompt": "x" * (size + number)}
                        headers = f"Authorization: Bearer secret-key-{1 + number % 2}\r\n"
                        assert (await caller.ask(body, headers=headers))[1] == answer()

                with watched() as counts:
                    await asyncio.gather(*(asks(number, caller) for number, caller in enumerate(callers)))
            assert counts["answers"] > 30
            assert len(one.asked) == 16 * 7
            names = [re.search(rb"X-Request-Id: (\S+)", head)[1] for head, _ in one.asked]
            assert len(set(names)) == len(names)
            assert all(b"Bearer" not in head for head, _ in one.asked)

    asyncio.run(story())


def test_a_request_whose_engine_dies_is_answered_by_another():
    async def story():
        dies = [False]

        async def answers(number, head, body, writer):
            if dies[0]:
                dies[0] = False
                return "dies"
            writer.write(whole(200, answer()))
            return None

        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            async with calling(server) as caller:
                with watched() as counts:
                    for number in range(24):
                        dies[0] = number in (10, 11, 17)
                        head, body = await caller.ask(BODY)
                        assert head.startswith(b"HTTP/1.1 200") and body == answer()
                assert counts["answers"] >= 8

    asyncio.run(story())


@pytest.mark.parametrize("told", [b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"a\":", b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"])  # fmt: skip
def test_an_answer_that_breaks_off_or_is_an_error_is_another_engines_to_give(told):
    async def story():
        bad = [False]

        async def answers(number, head, body, writer):
            writer.write(told if bad[0] else whole(200, answer()))
            is_cut, bad[0] = bad[0], False
            return "cut" if is_cut else None

        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            async with calling(server) as caller:
                for number in range(12):
                    bad[0] = number == 8
                    assert (await caller.ask(BODY))[1] == answer()

    asyncio.run(story())


def test_an_answer_in_pieces_and_one_with_another_head_come_whole():
    async def story():
        async def answers(number, head, body, writer):
            data = whole(200, answer("x" * number), more=f"Date: {number // 3}\r\n")
            writer.write(data[: 20 * number])
            await writer.drain()
            await asyncio.sleep(0.002 if number % 2 else 0)
            writer.write(data[20 * number :])

        async with engine(answers) as one, serving(one.url) as server, calling(server) as caller:
            for number in range(16):
                assert (await caller.ask(BODY))[1] == answer("x" * number)

    asyncio.run(story())


@pytest.mark.parametrize("place", ["before", "behind"])
def test_an_answer_whose_head_has_another_date_goes_through_it(place):
    async def answers(number, head, body, writer):
        date = f"date: Sun, 22 Nov 2026 15:00:{number:02} GMT"
        data = whole(200, answer(), more=f"{date}\r\n" if place == "behind" else "")
        writer.write(data if place == "behind" else data.replace(b" X\r\n", f" X\r\n{date}\r\n".encode(), 1))

    said, counts = told_times(30, answers)
    assert counts["answers"] >= 26
    assert all(body == answer() for _, body in said)


def test_silence_of_an_engine_is_a_failure_there_too():
    async def story():
        silent = [False]

        async def answers(number, head, body, writer):
            if silent[0]:
                silent[0] = False
                return STALLS
            writer.write(whole(200, answer()))
            return None

        engines = Engines(answer_s=0.2)
        async with (
            engine(answers) as one,
            engine(answers) as two,
            serving(one.url, two.url, engines=engines) as server,
        ):
            async with calling(server) as caller:
                with watched() as counts:
                    for _ in range(6):
                        await caller.ask(BODY)
                    silent[0] = True
                    assert (await caller.ask(BODY))[1] == answer()
                assert counts["handed"] >= 1

    asyncio.run(story())


def files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_client_that_leaves_frees_the_engine_and_every_file():
    async def story():
        stalls = [False]

        async def answers(number, head, body, writer):
            if stalls[0]:
                return STALLS
            writer.write(whole(200, answer()))
            return None

        async with engine(answers) as one, serving(one.url) as server:
            before = files()
            async with calling(server) as caller:
                with watched() as counts:
                    for _ in range(6):
                        await caller.ask(BODY)
                assert counts["answers"] >= 2
                stalls[0] = True
                caller.writer.write(request(BODY))
                await until(lambda: len(one.asked) == 7)
            await asyncio.wait_for(one.left.wait(), 1.0)
            (pool,) = server.gateway.pools.all
            await until(lambda: not pool.requests)
            await until(lambda: files() <= before + 2)  # a kept connection, both its ends
            assert pool.dispatcher.meters.cancelled == 1

    asyncio.run(story())


def test_requests_that_come_in_pieces_or_several_at_once_are_answered_in_order():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, answer(json.loads(body)["prompt"])))

        async with engine(answers) as one, serving(one.url) as server, calling(server) as caller:
            for number in range(40):
                data = request(BODY | {"prompt": f"a{number}"})
                if number % 5 == 4:
                    caller.writer.write(data[: 3 * number])
                    await asyncio.sleep(0.002)
                    assert (await caller.ask(None, data=data[3 * number :]))[1] == answer(f"a{number}")
                elif number % 7 == 6:
                    caller.writer.write(data + request(BODY | {"prompt": "b"}))
                    assert (await caller.heard())[1] == answer(f"a{number}")
                    assert (await caller.heard())[1] == answer("b")
                else:
                    assert (await caller.ask(None, data=data))[1] == answer(f"a{number}")

    asyncio.run(story())


def test_requests_wait_for_a_slot_and_expire_as_any_other():
    async def story():
        gate = asyncio.Event()
        gate.set()

        async def answers(number, head, body, writer):
            await gate.wait()
            writer.write(whole(200, answer()))

        async with engine(answers) as one, serving(one.url, slots=1, dispatch=Dispatch(ttl_s=0.3)) as server:
            async with calling(server) as first, calling(server) as second:
                for _ in range(5):
                    await asyncio.gather(first.ask(BODY), second.ask(BODY))
                gate.clear()
                first.writer.write(request(BODY))
                await until(lambda: len(one.asked) == 11)
                head, _ = await second.ask(BODY)
                assert head.startswith(b"HTTP/1.1 503")
                gate.set()
                assert (await first.heard())[1] == answer()
                assert (await second.ask(BODY))[1] == answer()

    asyncio.run(story())


def test_a_worker_that_leaves_gives_its_requests_to_another():
    async def story():
        stalls = [False]

        async def answers(number, head, body, writer):
            if stalls[0]:
                stalls[0] = False
                return STALLS
            writer.write(whole(200, answer()))
            return None

        async with engine(answers) as one, engine(answers) as two, serving(one.url, two.url) as server:
            async with calling(server) as caller:
                for _ in range(8):
                    await caller.ask(BODY)
                stalls[0] = True
                caller.writer.write(request(BODY))
                await until(lambda: not stalls[0])
                (pool,) = server.gateway.pools.all
                busy = next(
                    name
                    for name, at in pool.dispatcher.mirror.place.items()
                    if pool.dispatcher.mirror.held(at)
                )
                server.gateway.remove_worker(busy, drain=False)
                assert (await caller.heard())[1] == answer()
                assert (await caller.ask(BODY))[1] == answer()

    asyncio.run(story())


def test_a_gateway_that_drains_answers_what_is_under_way_and_closes_every_connection():
    async def story():
        gate = asyncio.Event()
        gate.set()

        async def answers(number, head, body, writer):
            await gate.wait()
            writer.write(whole(200, answer()))

        async with engine(answers) as one, serving(one.url) as server:
            async with calling(server) as busy, calling(server) as idle:
                for _ in range(5):
                    await asyncio.gather(busy.ask(BODY), idle.ask(BODY))
                gate.clear()
                busy.writer.write(request(BODY))
                await until(lambda: len(one.asked) == 11)
                server.gateway.drain()
                assert await asyncio.wait_for(idle.reader.read(), 2) == b""
                assert not await server.gateway.drained(0.05)
                gate.set()
                head, body = await busy.heard()
                assert b"Connection: close" in head and body == answer()
                assert await server.gateway.drained(5)

    asyncio.run(story())


def test_a_reload_holds_for_connections_that_it_had():
    async def story():
        keys = [ApiKey(key="secret-key-1", tenant="a")]
        headers = "Authorization: Bearer secret-key-1\r\n"
        async with (
            engine(whole_answers()) as one,
            serving(one.url, keys=keys) as server,
            calling(server) as caller,
        ):
            for _ in range(6):
                assert (await caller.ask(BODY, headers=headers))[1] == answer()
            gateway = server.gateway
            gateway.reload(replace(gateway.config(), keys=[ApiKey(key="secret-key-2", tenant="a")]))
            head, _ = await caller.ask(BODY, headers=headers)
            assert head.startswith(b"HTTP/1.1 401")

    asyncio.run(story())


def test_connections_with_nothing_to_do_are_closed_after_their_time():
    async def story():
        limits, engines = Limits(idle_s=0.3), Engines(idle_s=0.2)
        async with engine(whole_answers()) as one, serving(one.url, limits=limits, engines=engines) as server:
            async with calling(server) as caller:
                for _ in range(6):
                    await caller.ask(BODY)
                await until(lambda: not one.open, 2.0)
                assert await asyncio.wait_for(caller.reader.read(), 2) == b""

    asyncio.run(story())


def test_who_listens_hears_of_every_request():
    heard = []

    async def story():
        async with engine(whole_answers()) as one, serving(one.url) as server, calling(server) as caller:
            for _ in range(6):
                await caller.ask(BODY)
            server.gateway.listen_to((heard.append,))
            for _ in range(6):
                await caller.ask(BODY)

    asyncio.run(story())
    assert [one.outcome for one in heard] == ["complete"] * 6


def test_what_passes_is_in_the_decision_log(tmp_path):
    from msgspec.structs import replace as replaced

    from evenstep.dispatch.events import Arrived
    from evenstep.dispatch.log_file import read_log
    from evenstep.dispatch.records import Done
    from evenstep.gateway.sections import Decisions

    path = tmp_path / "a.evlog"
    _, counts = told_times(12, decisions=Decisions(path=str(path)))
    assert counts["answers"] >= 8
    records = list(read_log(path))
    assert {
        replaced(one, now_s=0.0, request=0, prompt_tokens=0, key=0)
        for one in records
        if isinstance(one, Arrived)
    } == {
        Arrived(request=0, prompt_tokens=0, max_tokens=9, tenant="anonymous", can_continue=False, now_s=0.0)
    }
    done = [record for record in records if isinstance(record, Done)]
    assert [(one.prompt_tokens, one.output_tokens) for one in done] == [(7, 3)] * 12


@pytest.mark.parametrize("policy", ["best", "prefix-affinity"])
def test_policies_that_look_ahead_or_at_caches_have_it_too(policy):
    async def story():
        async with engine(whole_answers()) as one, engine(whole_answers()) as two:
            async with serving(one.url, two.url, policy=policy) as server, calling(server) as caller:
                with watched() as counts:
                    for number in range(24):
                        size = 3000 if number % 3 == 2 else 10
                        assert (await caller.ask(BODY | {"prompt": "x" * size}))[1] == answer()
                assert counts["answers"] >= 14

    asyncio.run(story())


def test_it_is_off_unless_asked_for_and_a_reload_turns_it_on_and_off():
    async def story():
        async with engine(whole_answers()) as one, served(one.url) as server, calling(server) as caller:
            front, gateway = server.gateway.front, server.gateway
            assert front.lane is None
            for fast_path in (True, False, True):
                gateway.reload(replace(gateway.config(), limits=Limits(fast_path=fast_path)))
                with watched() as counts:
                    for _ in range(8):
                        assert (await caller.ask(BODY))[1] == answer()
                assert (front.lane is not None) == fast_path == (counts["answers"] > 2)

    asyncio.run(story())


def a_client(tables):
    """The row of the client's connection."""
    return next(n for n in range(at.CONNECTIONS_MOST) if tables.connections[n, at.KIND] >= 0)


def an_idle_client(tables):
    """The row of idle connections names the client's."""
    tables.idle[0, tables.idle[0, 0]] = a_client(tables)


def another_engines(tables):
    """The row of idle connections names one of another engine."""
    tables.connections[tables.idle[0, tables.idle[0, 0]], at.ENGINE] = 1


def far_beyond(tables):
    """The row of idle connections has more than there is room for."""
    tables.idle[0, 0] = at.MOST_IDLE + 3


def no_such_connection(tables):
    """The row of idle connections has a number outside its table."""
    tables.idle[0, tables.idle[0, 0]] = at.CONNECTIONS_MOST


@pytest.mark.skipif(compiled.CHECKED, reason="the checked build raises before")
@pytest.mark.parametrize("wrong", [an_idle_client, another_engines, far_beyond, no_such_connection])
def test_where_its_tables_disagree_nothing_is_sent_and_it_closes_its_connections(wrong, caplog):
    async def story():
        async with engine(whole_answers()) as one, serving(one.url) as server, calling(server) as caller:
            for _ in range(6):
                await caller.ask(BODY)
            made, asked = server.gateway.front.lane, len(one.asked)
            wrong(made._tables)
            caller.writer.write(request(BODY))
            assert await asyncio.wait_for(caller.reader.read(), 10) == b""
            assert len(one.asked) == asked
            async with calling(server) as other:
                for _ in range(6):
                    assert (await other.ask(BODY))[1] == answer()
            assert not made._held

    asyncio.run(story())
    assert "tables disagree" in caplog.text


def test_an_answer_goes_to_no_client_whose_row_does_not_name_its_request(caplog):
    if compiled.CHECKED:
        pytest.skip("the checked build raises before")

    async def story():
        gate = asyncio.Event()
        gate.set()

        async def answers(number, head, body, writer):
            await gate.wait()
            writer.write(whole(200, answer(json.loads(body)["prompt"])))

        async with engine(answers) as one, serving(one.url) as server:
            async with calling(server) as first, calling(server) as second:
                for _ in range(6):
                    await asyncio.gather(first.ask(BODY), second.ask(BODY))
                gate.clear()
                first.writer.write(request(BODY | {"prompt": "secret"}))
                await until(lambda: len(one.asked) == 13)
                tables = server.gateway.front.lane._tables
                busy = next(
                    n
                    for n in range(99)
                    if tables.connections[n, at.ENGINE] == 0 <= tables.connections[n, at.PASSAGE]
                )
                row = tables.requests[tables.connections[busy, at.PASSAGE]]
                row[at.CLIENT] = next(
                    n for n in range(99) if tables.connections[n, at.KIND] >= 0 and n != row[at.CLIENT]
                )
                gate.set()
                assert await asyncio.wait_for(second.reader.read(), 10) == b""
                assert await asyncio.wait_for(first.reader.read(), 10) == b""

    asyncio.run(story())
    assert "tables disagree" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["jsq", "best"])
def test_a_storm_of_faults_leaves_nothing_and_answers_all_who_stay(policy):
    chance = random.Random(7)

    async def faulty(number, head, body, writer):
        data = whole(200, answer("x" * chance.randrange(40)), more=f"Date: {number // 50}\r\n")
        fault = chance.random()
        if fault < 0.02:
            return "dies"
        if fault < 0.04:
            writer.write(data[: chance.randrange(len(data))])
            return "cut"
        if fault < 0.06:
            writer.write(whole(chance.choice([500, 503, 429]), b"{}"))
        elif fault < 0.1:
            writer.write(data[:60])
            await asyncio.sleep(0.001)
            writer.write(data[60:])
        elif fault < 0.12:
            writer.write(data)
            return "closes"
        else:
            if fault < 0.4:
                await asyncio.sleep(0.002)
            writer.write(data)
        return None

    async def asks(server, counts):
        for _ in range(12):
            async with calling(server) as caller:
                for _ in range(chance.randrange(1, 30)):
                    data = request(BODY | {"prompt": "y" * chance.choice([1, 50, 2000])})
                    if chance.random() < 0.03:
                        caller.writer.write(data)
                        break
                    if chance.random() < 0.05:
                        caller.writer.write(data[:40])
                        await asyncio.sleep(0.001)
                        data = data[40:]
                    head, _ = await caller.ask(None, data=data)
                    counts[head.split()[1]] += 1

    async def story():
        counts = Counter()
        dispatch = Dispatch(backoff_s=0.001, backoff_cap_s=0.002, cooldown_s=0.02, breaker_failures=50)
        async with engine(faulty) as one, engine(faulty) as two, engine(faulty) as three:
            workers = [Worker(url=each.url, slots=6) for each in (one, two, three)]
            async with serving(*workers, policy=policy, dispatch=dispatch) as server:
                with watched() as passed:
                    await asyncio.gather(*(asks(server, counts) for _ in range(24)))
        return counts, passed

    counts, passed = asyncio.run(story())
    assert passed["answers"] > 500 and passed["handed"] > 20
    assert counts[b"200"] > 0.98 * counts.total() > 2000


def test_where_nothing_is_compiled_there_is_none(monkeypatch):
    monkeypatch.setattr(lane, "_IS_POSSIBLE", False)
    assert lane_on(asyncio.new_event_loop(), None, b"salt") is None
