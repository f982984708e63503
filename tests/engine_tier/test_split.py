"""Prompts on one vLLM instance, answers on two others that fetch the KV by NIXL; and one of these dies in mid-stream."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import pytest
from tests.engine_tier.clients import Answer, ask, ask_all, body, metric
from tests.engine_tier.cutter import Cutter, Relays
from tests.engine_tier.prompts import SOME, prompt

pytestmark = pytest.mark.engine
TOKENS = 64
KINDS = ["completions", "chat"]
LEASE_S = 10.0
USAGE = "vllm:kv_cache_usage_perc"


@pytest.fixture(scope="module")
def relays(split):
    with Relays([worker.port for worker in split.workers]) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(split, relays):
    config = {
        "version": 1,
        "admin": {"enabled": False},
        "workers": [
            {"url": split.prefiller.url, "role": "prefill", "slots": 16},
            *({"url": cutter.url, "slots": 16} for cutter in relays.all),
        ],
        "policy": "jsq:ties=lowest",
        "dispatch": {"cooldown_s": 0.1, "cooldown_cap_s": 0.2},
    }
    path = split.fleet.folder / "gateway.yaml"
    path.write_text(json.dumps(config))
    found = split.fleet.gateway("gateway", "--config", str(path))
    split.fleet.ready(found, path="/readyz")
    return found


@pytest.fixture(scope="module")
def truth(split):
    """What an instance says by itself, having computed the prompt itself: kind and prompt -> ids."""
    asked = [(kind, text) for kind in KINDS for text in [*SOME, LONG]]
    questions = [(kind, body(kind, text, TOKENS)) for kind, text in asked]
    answers = asyncio.run(ask_all(split.workers[0].url, questions, at_once=8))
    return {pair: answer.ids for pair, answer in zip(asked, answers, strict=True)}


LONG = prompt(99, 700)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", KINDS)
def test_token_ids_are_those_of_a_single_instance(split, gateway, truth, kind, stream):
    texts = [*SOME, LONG]
    before = [metric(worker.url, FETCHED) for worker in split.workers]
    answers = asyncio.run(
        ask_all(gateway.url, [(kind, body(kind, text, TOKENS, stream=stream)) for text in texts], at_once=6)
    )
    for text, answer in zip(texts, answers, strict=True):
        assert answer.ids == truth[kind, text]
        assert answer.completion_tokens == TOKENS or stream
    fetched = [metric(worker.url, FETCHED) - was for worker, was in zip(split.workers, before, strict=True)]
    assert min(fetched) > 0, "each decoder fetched prompts instead of computing them"


FETCHED = 'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"}'


@pytest.mark.parametrize("after", range(10, TOKENS, 10))
@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_that_dies_in_mid_stream_costs_no_token_and_doubles_none(relays, gateway, truth, kind, after):
    both_take_part(relays, gateway)
    sprung = TOKENS
    for _ in range(5):  # an engine that comes late tells its last tokens in one event; then nothing was cut
        relays.arm(after)
        (answer,) = asyncio.run(ask_all(gateway.url, [(kind, body(kind, SOME[9], TOKENS, stream=True))]))
        sprung = relays.trap.sprung
        relays.arm(None)
        relays.revive()
        assert sprung is not None and after <= sprung
        assert answer.ids == truth[kind, SOME[9]]
        assert answer.is_done and answer.finish_reason == "length"
        if sprung < TOKENS:
            break
    assert sprung < TOKENS


def both_take_part(relays: Relays, gateway) -> None:
    """Ask two at a time until each decoder has answered: then the gateway trusts both."""
    for _ in range(200):
        before = [cutter.answers for cutter in relays.all]
        asyncio.run(ask_all(gateway.url, [("completions", body("completions", text, 4)) for text in SOME[:2]]))
        if all(cutter.answers > was for cutter, was in zip(relays.all, before, strict=True)):
            return
    raise AssertionError("one of the decoders gets nothing any more")


def test_a_killed_decoder_costs_no_request_wherever_its_streams_are(split, relays, gateway, truth):
    """Streams begun in turn, so that the decoder has some at every tenth token when it is killed."""
    both_take_part(relays, gateway)
    victim, relay = split.workers[1], relays.all[1]
    answers, running = asyncio.run(_begun_in_turn(gateway.url, relay, victim.kill))
    assert len({ids // 10 for ids in running}) >= 5, f"the dead decoder had streams at {sorted(running)}"
    for (kind, text), answer in answers:
        assert answer.ids == truth[kind, text], f"{kind}, {len(text)} characters"
        assert answer.is_done and not answer.error
    assert victim.popen.wait(10) is not None


async def _begun_in_turn(url: str, relay: Cutter, kill) -> tuple[list[tuple[tuple[str, str], Answer]], list[int]]:
    """Four more whenever the relay's oldest stream has ten more tokens; its streams' tokens when the engine is killed."""
    asked = [(KINDS[n // 2 % 2], SOME[n % len(SOME)]) for n in range(24)]

    async def reached(tokens: int) -> None:
        while max(relay.running.values(), default=0) < tokens:
            await asyncio.sleep(0.002)

    async with aiohttp.ClientSession(read_bufsize=1 << 20) as session:
        tasks = []
        for n, (kind, text) in enumerate(asked):
            if n % 4 == 0 and n:
                await asyncio.wait_for(reached(10 * (n // 4)), 60)
            tasks.append(asyncio.create_task(ask(session, url, kind, body(kind, text, TOKENS, stream=True))))
        await asyncio.wait_for(reached(60), 60)
        running = list(relay.running.values())
        kill()
        return list(zip(asked, await asyncio.gather(*tasks), strict=True)), running


def test_the_prefiller_keeps_no_block_beyond_its_lease(split, gateway):
    deadline_s = time.monotonic() + LEASE_S + 20  # a late engine frees what has expired late
    while metric(split.prefiller.url, USAGE) > 0 and time.monotonic() < deadline_s:
        asyncio.run(ask_all(split.prefiller.url, [("completions", body("completions", "x", 1))]))
        time.sleep(0.2)
    assert metric(split.prefiller.url, USAGE) == 0
