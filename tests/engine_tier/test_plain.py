"""Two plain vLLM instances behind the gateway: what a client is told is what the engine says."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine_tier.clients import Answer, ask_all, ask_curl, ask_openai, body, events_of, metric
from tests.engine_tier.prompts import SOME

pytestmark = pytest.mark.engine
TOKENS = 64
KINDS = ["completions", "chat"]


def ask_aiohttp(url: str, kind: str, asked: dict) -> Answer:
    return asyncio.run(ask_all(url, [(kind, asked)]))[0]


CLIENTS = {"aiohttp": ask_aiohttp, "openai": ask_openai, "curl": ask_curl}


@pytest.fixture(scope="module")
def gateway(plain):
    urls = [flag for worker in plain.workers for flag in ("--worker", worker.url)]
    found = plain.fleet.gateway("gateway", *urls)
    plain.fleet.ready(found, path="/readyz")
    return found


@pytest.fixture(scope="module")
def truth(plain):
    """What an engine says by itself: kind and prompt -> answer."""
    asked = [(kind, text) for kind in KINDS for text in SOME]
    questions = [(kind, body(kind, text, TOKENS)) for kind, text in asked]
    return dict(zip(asked, asyncio.run(ask_all(plain.workers[0].url, questions, at_once=1)), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_wanders_so_that_a_lost_token_shows(truth, kind):
    for text in SOME:
        ids = truth[kind, text].ids
        assert len(ids) == TOKENS
        assert len(set(ids)) >= 20, f"{len(set(ids))} different ids"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", KINDS)
def test_token_ids_through_the_gateway_are_those_of_the_engine(gateway, truth, kind, stream):
    questions = [(kind, body(kind, text, TOKENS, stream=stream)) for text in SOME]
    answers = asyncio.run(ask_all(gateway.url, questions))
    for text, answer in zip(SOME, answers, strict=True):
        assert answer.ids == truth[kind, text].ids
        assert answer.finish_reason == "length"
        assert answer.is_done is stream


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_reads_the_same_answer(gateway, truth, client, kind, stream):
    text = SOME[7]
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer = CLIENTS[client](gateway.url, kind, body(kind, text, TOKENS, **more))
    assert answer.ids == truth[kind, text].ids
    assert answer.completion_tokens == TOKENS
    assert answer.prompt_tokens == truth[kind, text].prompt_tokens
    assert answer.is_done is stream


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_asks_for_nothing_more_gets_the_same_text_and_nothing_more(plain, gateway, kind):
    asked = body(kind, SOME[5], TOKENS, stream=True)
    del asked["return_token_ids"]
    (members, text), (through_members, through_text) = (
        said(url, kind, asked) for url in (plain.workers[0].url, gateway.url)
    )
    assert through_members == members
    assert through_text == text


def said(url: str, kind: str, asked: dict) -> tuple[set[str], str]:
    """Every member of any event by its path, and the whole text."""
    members, answer = set(), Answer()
    for event in events_of(url, kind, asked):
        answer.take(event)
        members |= set(event)
        for choice in event["choices"]:
            members |= {f"choices.{name}" for name in choice} | {f"delta.{name}" for name in choice.get("delta", {})}
    return members, answer.text


@pytest.mark.parametrize("kind", KINDS)
def test_every_engine_takes_part(plain, gateway, kind):
    before = [metric(worker.url, "vllm:generation_tokens_total") for worker in plain.workers]
    asyncio.run(ask_all(gateway.url, [(kind, body(kind, text, TOKENS)) for text in SOME]))
    after = [metric(worker.url, "vllm:generation_tokens_total") for worker in plain.workers]
    made = [now - was for now, was in zip(after, before, strict=True)]
    assert sum(made) == TOKENS * len(SOME)
    assert min(made) >= TOKENS * 5
