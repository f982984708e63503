"""The endpoints, through aiohttp and through the openai package."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import openai
import pytest
from tests.emulator.running import events, raw, request, running, url

CHAT = [{"role": "user", "content": "say something"}]


def client(emulator):
    return openai.AsyncOpenAI(base_url=f"{url(emulator)}/v1", api_key="none", max_retries=0)


def test_the_openai_package_streams_completions_and_chats():
    async def story():
        async with running() as emulator, client(emulator) as api:
            assert (await api.models.list()).data[0].id == "emulated"
            more = {"ignore_eos": True, "return_token_ids": True}
            stream = await api.completions.create(
                model="emulated",
                prompt="begin",
                max_tokens=5,
                stream=True,
                extra_body=more,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].text for c in chunks if c.choices)
            whole = await api.completions.create(model="emulated", prompt="begin", max_tokens=5, extra_body=more)
            assert whole.choices[0].text == text
            assert chunks[-1].usage == whole.usage
            assert (whole.usage.completion_tokens, whole.choices[0].finish_reason) == (5, "length")
            said = await api.chat.completions.create(
                model="emulated", messages=CHAT, max_completion_tokens=4, extra_body=more
            )
            stream = await api.chat.completions.create(
                model="emulated", messages=CHAT, max_completion_tokens=4, stream=True, extra_body=more
            )
            deltas = [c.choices[0].delta async for c in stream]
            assert "".join(d.content or "" for d in deltas) == said.choices[0].message.content
            assert deltas[0].role == "assistant"

    asyncio.run(story())


def test_the_openai_package_reads_the_errors():
    async def story():
        async with running() as emulator, client(emulator) as api:
            with pytest.raises(openai.NotFoundError, match="`other` does not exist"):
                await api.completions.create(model="other", prompt="x")
            with pytest.raises(openai.BadRequestError, match="maximum context length"):
                await api.completions.create(model="emulated", prompt="x", max_tokens=10**7)
            emulator.fleet.faults.on.append(_fault("status:status=503,retry-after-s=2"))
            with pytest.raises(openai.InternalServerError, match="told to fail") as error:
                await api.completions.create(model="emulated", prompt="x")
            assert error.value.response.headers["Retry-After"] == "2"
            emulator.fleet.faults.on.append(_fault("die:after-tokens=2"))
            stream = await api.completions.create(model="emulated", prompt="x", max_tokens=9, stream=True)
            seen = 0
            with pytest.raises(openai.APIConnectionError):
                async for _ in stream:
                    seen += 1
            assert seen == 2

    asyncio.run(story())


def _fault(text):
    from evenstep.emulator.faults import fault_of

    return fault_of(text, 1)


def test_a_continued_prompt_goes_on_with_the_same_ids():
    async def story():
        async with running() as emulator, aiohttp.ClientSession(url(emulator)) as session:

            async def ids(prompt, count):
                body = {"prompt": prompt, "max_tokens": count, "return_token_ids": True, "ignore_eos": True}
                async with session.post("/v1/completions", json=body) as answer:
                    return (await answer.json())["choices"][0]

            whole = await ids("a story", 20)
            for cut in (1, 10, 19):
                rest = await ids(whole["prompt_token_ids"] + whole["token_ids"][:cut], 20 - cut)
                assert rest["token_ids"] == whole["token_ids"][cut:]

    asyncio.run(story())


def test_a_header_or_the_body_picks_the_rank():
    async def story():
        async with running(ranks=3) as emulator, aiohttp.ClientSession(url(emulator)) as session:
            body = {"prompt": "x", "max_tokens": 1}
            for rank in ("2", "2", "1"):
                headers = {"X-data-parallel-rank": rank}
                assert (await session.post("/v1/completions", json=body, headers=headers)).status == 200
            assert (await session.post("/v1/completions", json={**body, "data_parallel_rank": 1})).status == 200
            done = [emulator.fleet.rank(n).counts.finished["length"] for n in range(3)]
            assert done == [0, 2, 2]
            for bad in ("3", "-1", "one"):
                answer = await session.post("/v1/completions", json=body, headers={"X-data-parallel-rank": bad})
                assert answer.status == 400

    asyncio.run(story())


def test_a_port_for_each_rank():
    async def story():
        async with running(ranks=2, groups=[1, 1], port_per_rank=True) as emulator:
            async with aiohttp.ClientSession(url(emulator, 1)) as session:
                await session.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})
                page = await (await session.get("/metrics")).text()
            assert 'vllm:request_success_total{engine="1",model_name="emulated",finished_reason="length"} 1' in page
            assert 'engine="0"' not in page

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/ping", 200),
        ("GET", "/version", 200),
        ("GET", "/load", 200),
        ("GET", "/metrics", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/emulator/fault", 200),
        ("GET", "/v1/completions", 405),
        ("GET", "/v1/embeddings", 404),
        ("PUT", "/emulator/fault", 404),
        ("POST", "/emulator/pull", 404),
    ],
)
def test_paths(method, path, status):
    async def story():
        async with running() as emulator:
            body = b"{}" if method == "POST" else b""
            answer = await raw(emulator, request(body, path, method, "Connection: close\r\n"))
            assert answer.startswith(b"HTTP/1.1 %d" % status)
            if status >= 400:
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == status

    asyncio.run(story())


def test_faults_are_switched_on_listed_and_switched_off():
    async def story():
        async with running() as emulator, aiohttp.ClientSession(url(emulator)) as session:
            answer = await session.post("/emulator/fault", json={"fault": "die", "after_tokens": 3})
            assert [f["fault"] for f in (await answer.json())["faults"]] == ["die"]
            bad = await session.post("/emulator/fault", json={"fault": "dye"})
            assert (bad.status, "Did you mean die" in await bad.text()) == (400, True)
            for body in (b"[", b'{"fault":' + b"[" * 100_000):
                assert (await session.post("/emulator/fault", data=body)).status == 400
            answer = await session.delete("/emulator/fault")
            assert await answer.json() == {"faults": [], "dead_ranks": []}

    asyncio.run(story())


def test_slow_metrics_are_slow_and_a_client_that_leaves_them_is_no_trouble():
    async def story():
        async with running() as emulator, aiohttp.ClientSession(url(emulator)) as session:
            await session.post("/emulator/fault", json={"fault": "slow-metrics", "seconds": 60, "count": 1})
            with pytest.raises(TimeoutError):
                await session.get("/metrics", timeout=aiohttp.ClientTimeout(0.05))
            assert (await session.get("/metrics")).status == 200

    asyncio.run(story())


def test_redirects_are_answered_with_a_location():
    async def story():
        async with running(faults=["status:status=307,location=http://elsewhere/"]) as emulator:
            answer = await raw(emulator, request({"prompt": "x"}, headers="Connection: close\r\n"))
            assert answer.startswith(b"HTTP/1.1 307")
            assert b"Location: http://elsewhere/\r\n" in answer

    asyncio.run(story())


def test_the_request_id_of_the_client_is_that_of_the_answer():
    async def story():
        async with running() as emulator:
            data = request({"prompt": "x", "max_tokens": 1}, headers="X-Request-Id: abc\r\nConnection: close\r\n")
            assert b'"id":"cmpl-abc"' in await raw(emulator, data)

    asyncio.run(story())


def test_the_dialect_of_sglang():
    async def story():
        async with (
            running(dialect="sglang", ranks=2) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            body = {"messages": CHAT, "max_tokens": 2, "stream": True, "ignore_eos": True}
            body |= {"stream_options": {"continuous_usage_stats": True}, "routed_dp_rank": 1}
            found = events(await (await session.post("/v1/chat/completions", json=body)).read())
            assert [e["usage"]["completion_tokens"] for e in found[:-1]] == [0, 1, 2, 2]
            assert found[-2]["choices"][0]["matched_stop"] is None
            page = await (await session.get("/metrics")).text()
            assert 'sglang:num_requests_total{model_name="emulated",engine_type="unified",tp_rank="0",dp_rank="1"} 1' in page

    asyncio.run(story())


def test_a_storm_of_faults_and_of_clients_that_leave_ends_with_nothing_left_behind():
    """Every stream that is neither left nor struck is whole; what is struck never looks whole."""
    faults = [
        f"{kind}:share=0.08,count=0,after_tokens={0 if kind == 'empty' else 2}"
        for kind in ("die", "cut", "error-event", "recomputed", "malformed", "empty")
    ]

    async def one(session, number):
        body = {
            "prompt": f"storm {number}",
            "max_tokens": 6,
            "stream": True,
            "ignore_eos": True,
            "n": 1 + number % 2,
        }
        try:
            async with session.post("/v1/completions", json=body) as answer:
                if number % 3 == 0:
                    for _ in range(number % 5):
                        await answer.content.readline()
                    return "left"
                data = await answer.read()
        except aiohttp.ClientError:
            return "broken"
        if b"[DONE]" not in data:
            return "cut"
        if b'"error"' in data or b"malformed" in data or b"recomputed" in data:
            return "said"
        tokens = [e["choices"][0]["index"] for e in events(data)[:-1]]
        assert sorted(tokens) == sorted([*range(body["n"])] * 6)
        return "whole"

    async def story():
        async with running(ranks=2, slots=8, kv_tokens=400, faults=faults, max_model_len=64) as emulator:
            async with aiohttp.ClientSession(url(emulator)) as session:
                found = await asyncio.gather(*(one(session, number) for number in range(150)))
            assert {"left", "broken", "cut", "said", "whole"} == set(found)

    asyncio.run(story())
