"""Ranks and groups behind the sockets: pace, placement, death and return."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from functools import partial
from unittest import mock

import aiohttp
import numpy as np
import pytest
from tests import clock
from tests.emulator.running import drained, events, running, url

from evenstep.emulator.emulated_request import RefusedError, asked
from evenstep.emulator.faults import Fault
from evenstep.emulator.fleet import Fleet, rank_of
from evenstep.emulator.settings import EmulatorSettings

LONG = {"prompt": "x", "max_tokens": 100_000, "stream": True, "ignore_eos": True}


async def stream(session, rank, body=LONG):
    """An open stream on a rank, its first token read."""
    answer = await session.post("/v1/completions", json=body, headers={"X-data-parallel-rank": str(rank)})
    await answer.content.readuntil(b"data: ")
    return answer


async def answers(session, where):
    """Whether it answers 200, sooner or later."""
    for _ in range(1000):
        try:
            return (await session.get(where)).status == 200
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.01)
    return False


def test_what_names_no_rank_goes_where_least_waits_and_runs():
    async def story():
        async with (
            running(ranks=3, slots=1, speed=1.0) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            first = await stream(session, 0)
            for _ in range(2):
                await session.post("/v1/completions", json=LONG)
            fleet = emulator.fleet
            assert [len(fleet.rank(n).running) + len(fleet.rank(n).waiting) for n in range(3)] == [
                1,
                1,
                1,
            ]
            first.close()

    asyncio.run(story())


def test_a_waiting_request_weighs_as_much_as_four_running_ones():
    async def story():
        fleet = Fleet(EmulatorSettings(ranks=4), asyncio.get_running_loop(), (1,) * 4)

        def load(rank, waits, runs):
            one = fleet.rank(rank)
            one.waiting, one.running = deque(["w"] * waits), ["r"] * runs

        for rank, waits, runs in ((0, 1, 0), (1, 0, 3), (2, 0, 3), (3, 0, 0)):
            load(rank, waits, runs)
        fleet.rank(3).dead = True
        assert fleet.lightest(range(4)) == 1
        load(1, 0, 5)
        load(2, 1, 1)
        assert fleet.lightest(range(4)) == 0
        fleet.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("header", "body", "ranks", "wanted"),
    [
        (None, {}, (0, 1), None),
        ("1", {}, (0, 1), 1),
        ("0", {}, (5,), 5),
        (None, {"data_parallel_rank": 1}, (0, 1), 1),
        ("0", {"data_parallel_rank": 1}, (0, 1), 0),
    ],
)
def test_the_rank_a_request_names(header, body, ranks, wanted):
    read = asked(json.dumps({"prompt": "x", **body}).encode(), chat=False, model="m", longest=99)
    assert rank_of(read, header, ranks) == wanted
    for text, said in (("2", "data parallel rank 2 is not in 0..1."), ("1" * 5000, f"X-data-parallel-rank is '{'1' * 20}'")):
        with pytest.raises(RefusedError, match=re.escape(said)) as refused:
            rank_of(read, text, (0, 1))
        assert refused.value.status == 400


def test_a_killed_rank_breaks_its_streams_and_its_group_follows_with_an_error_event():
    async def story():
        async with (
            running(ranks=3, groups=[2, 1], speed=1.0) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            dying, peer, other = [await stream(session, rank) for rank in range(3)]
            body = {"fault": "kill-rank", "rank": 0, "peers_after_s": 0.02}
            answer = await session.post("/emulator/fault", json=body)
            assert (await answer.json())["dead_ranks"] == [0]
            with pytest.raises(aiohttp.ClientPayloadError):
                await dying.content.read()
            found = events(b"data: " + await peer.content.read())
            assert "rank of its group is gone" in found[-2]["error"]["message"]
            assert found[-1] == "[DONE]"
            await other.content.readuntil(b"data: ")
            assert (await session.get("/health")).status == 503
            with pytest.raises(aiohttp.ClientConnectionError):
                await stream(session, 0)
            await session.delete("/emulator/fault")
            assert (await session.get("/health")).status == 200
            (await stream(session, 0)).close()
            other.close()
            await drained(emulator)

    asyncio.run(story())


def test_healing_cancels_the_deaths_that_a_fault_has_yet_to_bring():
    async def story():
        fleet = Fleet(EmulatorSettings(ranks=2), asyncio.get_running_loop(), (1, 1))
        fleet.strike(0, Fault("kill-rank", rank=0, peers_after_s=5.0))
        assert [fleet.rank(number).dead for number in range(2)] == [True, False]
        fleet.faults.on.append(Fault("refuse", count=0))
        fleet.heal()
        assert fleet.faults.hit(0) is None
        await asyncio.sleep(6.0)  # of a clock that jumps
        assert [fleet.rank(number).dead for number in range(2)] == [False, False]
        fleet.strike(0, Fault("kill-rank", rank=0, peers_after_s=5.0))
        await asyncio.sleep(6.0)
        assert [fleet.rank(number).dead for number in range(2)] == [True, True]
        fleet.close()

    clock.run(story())


def test_a_dead_rank_with_a_port_of_its_own_refuses_connections_and_comes_back():
    async def story():
        async with (
            running(ranks=2, groups=[1, 1], port_per_rank=True) as emulator,
            aiohttp.ClientSession(url(emulator, 0)) as session,
        ):
            body = {"fault": "kill-group", "rank": 1, "down_s": 0.1, "peers_after_s": 0}
            await session.post("/emulator/fault", json=body)
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url(emulator, 1) + "/health")
            assert await answers(session, url(emulator, 1) + "/health")

    asyncio.run(story())


def test_a_fault_in_mid_stream_kills_the_group():
    async def story():
        async with (
            running(ranks=2, faults=["kill-group:rank=1,after-tokens=3"]) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            answer = await session.post("/v1/completions", json=LONG, headers={"X-data-parallel-rank": "1"})
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get("/health")

    asyncio.run(story())


@pytest.mark.parametrize("speed", [1.0, 4.0])
@pytest.mark.parametrize(("step_s", "most_s"), [(2**-4, 2**-4), (2**-20, 1e-3)])
def test_a_step_later_than_a_step_and_a_millisecond_counts_and_the_pace_goes_on_from_it(step_s, most_s, speed):
    """Seconds are those of a loop that a test turns by hand."""
    loop = mock.Mock(**{"time.return_value": 1000.0})
    fleet = Fleet(
        EmulatorSettings(overhead_s=step_s * speed, per_token_s=0.0, speed=speed, prefill_per_token_s=0.0), loop, (1,)
    )
    out = mock.Mock(paused=False)
    body = {"prompt": "x", "max_tokens": 100, "stream": True, "ignore_eos": True}
    fleet.submit(asked(json.dumps(body).encode(), chat=False, model="emulated", longest=999), 0, "a", out)

    def woken(later_s):
        """Run the timer this long after its time; returns that time."""
        at_s, due, *given = loop.call_at.call_args.args
        loop.time.return_value = at_s + later_s
        due(*given)
        return at_s

    begun = woken(0.0)
    assert [woken(late) for late in (0.0, 0.9 * most_s, 1.1 * most_s, 0.0)] == pytest.approx(
        [begun + step_s, begun + 2 * step_s, begun + 3 * step_s, begun + 4 * step_s + 1.1 * most_s], rel=0, abs=1e-9
    )
    assert fleet.late_steps == {fleet.groups[0]: 1}
    assert out.start.call_count == 1 and out.send.call_count == 4
    fleet.close()


def test_a_group_that_waits_for_the_end_of_a_lease_has_one_timer_and_an_earlier_one_takes_its_place():
    loop, timers = mock.Mock(**{"time.return_value": 1000.0}), []

    def call_at(at_s, due, *given):
        timers.append(mock.Mock(at_s=at_s, run=partial(due, *given)))
        return timers[-1]

    loop.call_at.side_effect = call_at
    fleet = Fleet(EmulatorSettings(lease_s=30.0, kv_tokens=32), loop, (1,))
    out = mock.Mock(paused=False, reached="127.0.0.1")

    def asks(**body):
        read = asked(json.dumps({"max_tokens": 1, **body}).encode(), chat=False, model="emulated", longest=32)
        fleet.submit(read, 0, "a", out)
        ran = 0
        while ran < len(timers) and timers[-1].at_s < 1001.0:
            ran = len(timers)
            loop.time.return_value = timers[-1].at_s
            timers[-1].run()

    asks(prompt="x", kv_transfer_params={"do_remote_decode": True})
    kept = json.loads(out.reply.call_args.args[1])["kv_transfer_params"]["remote_request_id"]
    asks(prompt=[5] * 20)
    waits = timers[-1]
    assert waits.at_s == pytest.approx(1030.0, abs=0.1) and out.reply.call_count == 1
    assert fleet.transfer.give(kept, int(kept.rpartition("-")[2], 16))
    assert timers[-1].at_s < 1001.0 and waits.cancel.called and not timers[-1].cancel.called
    fleet.close()
    assert timers[-1].cancel.called


def test_all_streams_of_a_group_keep_the_pace_of_its_heaviest_rank():
    """Engine time is compared with engine time: the seconds of the group's steps, not those of this machine."""

    async def story():
        async with running(ranks=2, overhead_s=0.01, per_token_s=0.001, speed=100.0) as emulator:
            async with aiohttp.ClientSession(url(emulator)) as session:
                body = {"max_tokens": 4, "ignore_eos": True}
                jobs = [
                    session.post(
                        "/v1/completions",
                        json={**body, "prompt": [5] * tokens},
                        headers={"X-data-parallel-rank": str(rank)},
                    )
                    for rank, tokens in ((0, 1), (1, 500))
                ]
                await asyncio.gather(*jobs)
            group = emulator.fleet.groups[0]
            busy = np.array([rank.counts.busy_s for rank in group.ranks])
            assert group.stepped_s == pytest.approx(0.01 * group.steps + busy[1], rel=0.05)
            assert busy[0] < 0.05
            assert busy[1] > 2.0

    asyncio.run(story())


def test_seeded_answers_differ_by_seed_and_several_answers_differ_from_each_other():
    async def story():
        async with running() as emulator, aiohttp.ClientSession(url(emulator)) as session:

            async def texts(**more):
                body = {"prompt": "x", "max_tokens": 8, "ignore_eos": True, **more}
                answer = await session.post("/v1/completions", json=body)
                return [choice["text"] for choice in (await answer.json())["choices"]]

            assert await texts(seed=1) == await texts(seed=1) != await texts(seed=2)
            assert await texts(seed=1, temperature=0) == await texts()
            assert len(set(await texts(n=3))) == 3
            plain, second, *twins = await texts(n=2, prompt=["x", "x"])
            assert [plain, second] == twins and [plain] == await texts() != [second]
            seeded = [await texts(seed=seed) for seed in (0, 1, 2, -1, 2**63 - 1)]
            assert len({plain, *(text for (text,) in seeded)}) == 6

    asyncio.run(story())


def test_another_seed_of_the_emulator_is_another_model():
    async def story(seed):
        async with running(seed=seed) as emulator, aiohttp.ClientSession(url(emulator)) as session:
            answer = await session.post("/v1/completions", json={"prompt": "x", "max_tokens": 8})
            return (await answer.json())["choices"][0]["text"]

    assert asyncio.run(story(0)) == asyncio.run(story(0)) != asyncio.run(story(1))
