"""Promise 10: an engine that fails is left alone and asked again; the last healthy one never; nobody pays for a client's fault."""

from __future__ import annotations

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story

from evenstep.dispatch.requests import deadlines

QUICK = {"breaker_failures": 2, "cooldown_s": 0.2}


async def times(f, count: int, **more):
    """So many requests, one after the other; their verdicts."""
    return [verdict(await answered(f.port, ask(tokens=3, **more)), 3) for _ in range(count)]


def only(broken: e.HostileEngine, fault: e.Answer) -> e.Answer:
    """That engine fails, the others do not."""

    async def answer(call: e.Call) -> None:
        await (fault if call.engine is broken else e.well)(call)

    return answer


def test_an_engine_that_fails_again_and_again_is_left_alone_and_comes_back_when_it_is_well():
    async def one():
        async with fleet(engines=2, dispatch=QUICK) as f:
            broken = f.engines[0]
            broken.healthy = False
            f.plan.otherwise = only(broken, e.status(500))
            assert set(await times(f, 20)) == {"complete"}
            tried = len(broken.calls)
            assert tried <= 4, "a few failures are enough"
            assert set(await times(f, 20)) == {"complete"} and len(broken.calls) == tried
            broken.healthy = True
            f.plan.otherwise = e.well
            await f.until(lambda shown: all(w["is_up"] for w in shown["workers"]))
            assert set(await times(f, 20)) == {"complete"} and len(broken.calls) > tried

    story(one)


@pytest.mark.parametrize("is_reset", [True, False])
def test_an_engine_that_ends_every_connection_is_left_though_its_kept_ones_do_not_count(is_reset):
    async def one():
        async with fleet(engines=2, dispatch=QUICK | {"cooldown_s": 1e3}) as f:
            broken = f.engines[0]
            assert set(await times(f, 10)) == {"complete"}
            tried = len(broken.calls)
            f.plan.otherwise = only(broken, e.cut(0, reset=is_reset))
            assert set(await times(f, 20)) == {"complete"}
            assert 1 <= len(broken.calls) - tried <= 3, "its kept connection, and twice a fresh one"

    story(one)


def test_the_last_healthy_engine_is_never_left(monkeypatch):
    monkeypatch.setattr(deadlines, "_PROBED_S", 0.1)  # what a request that failed waits for the other engine, which is dead

    async def one():
        async with fleet(engines=2, dispatch=QUICK | {"cooldown_s": 0.03}) as f:
            f.engines[0].kill()
            f.plan.otherwise = e.status(500)
            assert set(await times(f, 6)) == {"refused"}  # three times its limit
            assert len(f.engines[1].calls) == 6, "it is asked each time"
            f.plan.otherwise = e.well
            assert set(await times(f, 5)) == {"complete"}

    story(one)


def test_a_clients_fault_is_nobody_elses():
    async def one():
        async with fleet(engines=2, dispatch=QUICK) as f:
            for code in (400, 404, 413, 422, 501):
                f.plan.otherwise = e.status(code)
                assert set(await times(f, 5)) == {"refused"}
            f.plan.otherwise = e.well
            before = [len(engine.calls) for engine in f.engines]
            assert set(await times(f, 12)) == {"complete"}
            assert all(len(engine.calls) > n for engine, n in zip(f.engines, before, strict=True)), "both are still asked"

    story(one)


def test_one_prompt_that_fails_everywhere_ejects_nobody():
    async def poison(call: e.Call) -> None:
        await (e.raw(b"", close=True) if call.asked["prompt"] == "poison" else e.well)(call)

    async def one():
        async with fleet(engines=3, dispatch=QUICK) as f:
            f.plan.otherwise = poison
            for _ in range(4):
                assert set(await times(f, 2, prompt="poison")) == {"refused"}
            before = [len(engine.calls) for engine in f.engines]
            assert set(await times(f, 12)) == {"complete"}
            assert all(len(engine.calls) > n for engine, n in zip(f.engines, before, strict=True)), "all are still asked"

    story(one)
