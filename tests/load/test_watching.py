"""Pages of engines and gateways read while something runs."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import ExitStack

import pytest
from tests.emulator import running as emulators
from tests.gateway.running import until
from tests.load.running import loaded, small

from evenstep.errors import EngineError, InputError
from evenstep.load import watching
from evenstep.load.settings import target_of
from evenstep.load.watching import sample, watched


def test_figures_of_ranks_are_added_and_those_of_their_group_are_not():
    async def go():
        async with emulators.running(ranks=4, slots=2, speed=100.0) as one:
            url = emulators.url(one)
            await loaded(url, small(8, 0.0))
            found = await asyncio.to_thread(sample, target_of(url), target_of(url), {"us": os.getpid()})
            ranks = [one.fleet.rank(n) for n in range(4)]
            return found, one.fleet.groups[0], sum(rank.counts.busy_s for rank in ranks)

    found, group, busy_s = asyncio.run(go())
    assert found.engine["tokens"] == small(8).output_tokens.sum()
    assert found.engine["steps"] == group.steps
    assert abs(found.engine["stepped_s"] - group.stepped_s) < 1e-9
    assert abs(found.engine["busy_s"] - busy_s) < 1e-9
    assert found.cpu_s["us"] > 0 and "oldest_s" not in found.gateway


ENGINE = """
vllm:num_requests_running{rank="0"} 3
vllm:num_requests_running{rank="1"} 4
evenstep:steps_total{rank="0"} 50
evenstep:steps_total{rank="1"} 50
evenstep:step_seconds_total{rank="0"} 2.5
evenstep:step_seconds_total{rank="1"} 2.5
evenstep:busy_seconds_total{rank="0"} 1.25
evenstep:busy_seconds_total{rank="1"} 2.0
evenstep:late_steps_total{rank="0"} 6
evenstep:late_steps_total{rank="1"} 6
vllm:generation_tokens_total{rank="0"} 100
vllm:generation_tokens_total{rank="1"} 150
"""
GATEWAY = """
evenstep_pool_oldest_seconds{model="m"} 1.5
evenstep_pool_depth{model="m"} 7
evenstep_barrier_idle_device_seconds_total{model="m"} 0.75
evenstep_group_steps_total{model="m"} 48
evenstep_decisions_total{model="m",result="admitted"} 20
evenstep_decisions_total{model="m",result="held"} 5
evenstep_fallback_total{model="m",reason="late"} 2
evenstep_fallback_total{model="m",reason="held"} 1
"""


def test_every_figure_of_both_pages_by_hand(monkeypatch):
    engine, gateway = (target_of(f"http://127.0.0.1:{port}") for port in (1, 2))
    pages = {engine: ENGINE, gateway: GATEWAY}
    monkeypatch.setattr(watching, "get", lambda target, path: (200, pages[target].encode()))
    monkeypatch.setattr(watching, "cpu_s", lambda pid: pid / 10)
    found = sample(engine, gateway, {"engines": 5})
    assert found.engine == {
        "ranks": 2, "running": 7, "steps": 50, "stepped_s": 2.5, "busy_s": 3.25, "late": 6, "tokens": 250
    }  # fmt: skip
    told = {"oldest_s": 1.5, "depth": 7, "idle_device_s": 0.75, "steps": 48, "rounds": 25, "fallbacks": 3}
    assert {name: found.gateway[name] for name in told} == told
    assert found.cpu_s == {"engines": 0.5}


def test_a_gateway_that_does_not_answer_leaves_the_engines_figures(monkeypatch):
    engine = target_of("http://127.0.0.1:1")

    def read(target, path):
        if target is engine:
            return 200, ENGINE.encode()
        raise InputError("test", "--url", "x", "a server that answers")

    monkeypatch.setattr(watching, "get", read)
    found = sample(engine, target_of("http://127.0.0.1:2"), {})
    assert found.engine["steps"] == 50 and found.gateway == {}


def test_pages_are_read_again_and_again_until_it_ends():
    async def go():
        async with emulators.running() as one:
            during = ExitStack()
            samples = during.enter_context(watched(target_of(emulators.url(one)), None, {}, every_s=0.01))
            await until(lambda: len(samples) >= 3)
            reader = next(one for one in threading.enumerate() if one.daemon and "run" in one.name)
            await asyncio.to_thread(during.close)
            assert not reader.is_alive()  # nobody reads any more
            return samples

    samples = asyncio.run(go())
    assert samples[0].at_s < samples[1].at_s and samples[0].gateway == {} == samples[0].cpu_s


def test_a_page_that_cannot_be_read_leaves_no_sample():
    with watched(target_of("http://127.0.0.1:1"), None, {}, every_s=0.001) as samples:
        pass
    assert samples == []


def test_a_page_without_what_is_shared_is_an_error_of_ours(monkeypatch):
    monkeypatch.setattr(watching, "get", lambda target, path: (503, b"upstream is not there"))
    with pytest.raises(EngineError, match="evenstep:steps_total is missing"):
        sample(target_of("http://127.0.0.1:1"), None, {})
