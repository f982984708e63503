"""Promise 9: errors are OpenAI objects, pass Retry-After on, and name no address of an engine."""

from __future__ import annotations

import re

import openai
import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import answered, ask, request, verdict
from tests.gateway.promises.fleet import fleet, story

ADDRESS = re.compile(rb"127\.0\.0\.1|localhost|:\d{4,5}\b")
FIELDS = {"message", "type", "param", "code"}


def told(reply):
    """The error object, seen to be one that names no address."""
    assert reply.headers["content-type"].startswith("application/json")
    assert set(reply.json) == {"error"} and set(reply.json["error"]) >= FIELDS
    assert not ADDRESS.search(reply.body), reply.body
    return reply.json["error"]


def test_an_engines_own_words_about_a_clients_fault_come_through_without_its_address():
    async def one():
        async with fleet(engines=1) as f:
            address = f.engines[0].url
            for code, name in (
                (400, "BadRequestError"),
                (404, "NotFoundError"),
                (422, "UnprocessableEntityError"),
            ):
                words = f"Too long for {address}/v1, as 127.0.0.1:{f.engines[0].port} says."
                f.plan.next.append(e.status(code, {"error": {"message": words, "type": name, "param": None, "code": code}}))
                reply = await answered(f.port, ask(tokens=2))
                assert reply.status == code and "Too long" in told(reply)["message"]
            assert len(f.calls) == 3, "and no other attempt is made"

    story(one)


def test_an_engines_faults_come_through_without_its_words():
    async def one():
        async with fleet(engines=1) as f:
            words = {
                "error": {
                    "message": f"CUDA error on {f.engines[0].url}",
                    "type": "InternalServerError",
                    "code": 500,
                }
            }
            for faults in (
                [e.status(500, words)],
                [e.raw(b"", close=True)] * 2,  # the first time the kept connection may have been closed before it was asked
                [e.raw(e.answer_bytes(200, b"<html>http://127.0.0.1:9/"))],
            ):
                f.plan.next.extend(faults)
                reply = await answered(f.port, ask(tokens=2))
                assert reply.status == 502 and "CUDA" not in told(reply)["message"]
            f.engines[0].kill()
            reply = await answered(f.port, ask(tokens=2))
            assert reply.status in (502, 503) and told(reply)

    story(one)


def test_an_error_event_names_no_address_either():
    async def one():
        async with fleet(engines=1) as f:
            broken = {"error": {"message": f"lost {f.engines[0].url}", "type": "x", "code": 500}}
            f.plan.otherwise = e.after(2, e.event(broken), end="last")
            reply = await answered(f.port, ask(tokens=4))
            assert verdict(reply, 4) == "error" and not ADDRESS.search(reply.body)
            assert set(list(reply.events())[-1]["error"]) >= FIELDS

    story(one)


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_passed_on(code):
    async def one():
        async with fleet(engines=1) as f:
            f.plan.otherwise = e.status(code, None, "Retry-After: 17")
            reply = await answered(f.port, ask(tokens=2))
            assert reply.status in (429, 503) and reply.headers["retry-after"] == "17"
            assert told(reply)

    story(one)


def test_paths_and_models_that_are_not_there_are_told_as_openai_tells_them():
    async def one():
        async with fleet(engines=1) as f:
            reply = await answered(f.port, ask(tokens=2, model="gpt-unknown"))
            assert reply.status == 404 and told(reply)["code"] == "model_not_found"
            assert "gpt-unknown" in told(reply)["message"]
            reply = await answered(f.port, request(b"{}", path="/no/such/path"))
            assert reply.status == 404 and told(reply)
            assert not f.calls

    story(one)


def test_keys_are_asked_for_in_openais_words():
    async def one():
        async with fleet(engines=1, keys=[{"key": "sk-promises", "tenant": "a"}]) as f:
            for headers in ((), ("Authorization: Bearer sk-wrong",), ("Authorization: Basic sk-promises",)):
                reply = await answered(f.port, ask(tokens=2, headers=headers))
                assert reply.status == 401 and told(reply)["code"] == "invalid_api_key"
                assert "sk-wrong" not in told(reply)["message"]
            right = ("Authorization: Bearer sk-promises",)
            assert verdict(await answered(f.port, ask(tokens=2, headers=right)), 2) == "complete"
            assert len(f.calls) == 1

    story(one)


def test_openais_own_client_raises_the_errors_it_should():
    async def one():
        async with fleet(engines=1) as f:
            client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{f.port}/v1", api_key="x", max_retries=0)
            with pytest.raises(openai.NotFoundError):
                await client.completions.create(model="gpt-unknown", prompt="a")
            f.plan.next.append(e.status(500))
            with pytest.raises(openai.InternalServerError):
                await client.completions.create(model=e.MODEL, prompt="a", max_tokens=2)
            f.plan.otherwise = e.after(2)
            stream = await client.completions.create(model=e.MODEL, prompt="a", max_tokens=4, stream=True, logprobs=1)
            with pytest.raises(openai.APIError):
                async for _ in stream:
                    pass
            await client.close()

    story(one)
