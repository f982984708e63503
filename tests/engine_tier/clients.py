"""Three clients that ask for token ids: aiohttp, the openai package and curl. Ids are the truth; text may break inside a character."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import openai

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass
class Answer:
    """What a client was told."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    completion_tokens: int = 0
    prompt_tokens: int = 0
    is_done: bool = False  # the stream's own end was there
    error: str = ""  # of an error event
    times: list[float] = field(default_factory=list)  # of each id

    def take(self, event: dict[str, Any]) -> None:
        """One event of a stream, or a whole answer."""
        if "error" in event:
            self.error = event["error"]["message"]
            return
        if event.get("usage"):
            self.completion_tokens = event["usage"]["completion_tokens"]
            self.prompt_tokens = event["usage"]["prompt_tokens"]
        for choice in event["choices"]:
            new = choice.get("token_ids") or []
            self.ids += new
            self.times += [time.monotonic()] * len(new)
            said = choice.get("delta") or choice.get("message") or {}
            self.text += choice.get("text") or said.get("content") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason


def body(kind: str, prompt: str, tokens: int, **more: Any) -> dict[str, Any]:
    """A greedy request of this kind for so many tokens."""
    asked = {"prompt": prompt} if kind == "completions" else {"messages": [{"role": "user", "content": prompt}]}
    return {
        "model": "tiny",
        "temperature": 0,
        "ignore_eos": True,
        "max_tokens": tokens,
        "return_token_ids": True,
        **asked,
        **more,
    }


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    kind: str,
    asked: dict[str, Any],
    told: Callable[[Answer], Awaitable[None]] | None = None,
) -> Answer:
    """With aiohttp; `told` is called after each event of a stream."""
    answer = Answer()
    async with session.post(url + PATHS[kind], json=asked) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        if not asked.get("stream"):
            answer.take(await response.json())
            return answer
        async for data in _events(response.content):
            if data == "[DONE]":
                answer.is_done = True
            else:
                answer.take(json.loads(data))
            if told is not None:
                await told(answer)
    return answer


async def _events(lines: Any) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith(b"data: "):
            yield line[6:].decode().strip()


async def ask_all(
    url: str,
    asked: Iterable[tuple[str, dict[str, Any]]],
    at_once: int = 0,
    timeout_s: float = 300,
    in_order: bool = False,
    headers: dict[str, str] | None = None,
) -> list[Answer]:
    """Answers in the order of the questions; all at once, or so many at a time.

    Args:
        in_order: open all connections first, so that the questions arrive in their order.
        headers: sent with each.
    """
    questions = list(asked)
    gate = asyncio.Semaphore(at_once or len(questions))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        read_bufsize=1 << 20,
        headers=headers,
    ) as session:

        async def one(kind: str, question: dict[str, Any]) -> Answer:
            async with gate:
                return await ask(session, url, kind, question)

        async def open_connection() -> None:
            async with session.get(url + "/health") as response:
                await response.read()

        if in_order:
            await asyncio.gather(*[open_connection() for _ in questions])
        return list(await asyncio.gather(*[one(kind, question) for kind, question in questions]))


def ask_openai(url: str, kind: str, asked: dict[str, Any]) -> Answer:
    """With the openai package; what it does not know goes in as extra members."""
    known = {"model", "prompt", "messages", "temperature", "max_tokens", "stream"}
    extra = {name: value for name, value in asked.items() if name not in known}
    own = {name: value for name, value in asked.items() if name in known}
    answer = Answer()
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        made = client.completions if kind == "completions" else client.chat.completions
        found = made.create(**own, extra_body=extra)
        if not asked.get("stream"):
            answer.take(found.model_dump())
            return answer
        for chunk in found:
            answer.take(chunk.model_dump())
        answer.is_done = True  # the package reads to the stream's end, or raises
    return answer


def ask_curl(url: str, kind: str, asked: dict[str, Any]) -> Answer:
    """With curl."""
    answer = Answer()
    text = _curl(url, kind, asked)
    if not asked.get("stream"):
        answer.take(json.loads(text))
        return answer
    for data in _data(text):
        if data == "[DONE]":
            answer.is_done = True
        else:
            answer.take(json.loads(data))
    return answer


def events_of(url: str, kind: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream as they are, read with curl."""
    return [json.loads(data) for data in _data(_curl(url, kind, asked)) if data != "[DONE]"]


def _data(text: str) -> list[str]:
    return [line[6:] for line in text.splitlines() if line.startswith("data: ")]


def _curl(url: str, kind: str, asked: dict[str, Any]) -> str:
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--fail-with-body",
        "--no-buffer",
        "--max-time",
        "120",
        "--header",
        "content-type: application/json",
        "--data-binary",
        "@-",
        url + PATHS[kind],
    ]
    done = subprocess.run(command, input=json.dumps(asked).encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"curl ended with {done.returncode}: {done.stdout.decode()} {done.stderr.decode()}")
    return done.stdout.decode()


def metric(url: str, name: str) -> float:
    """Sum of an engine's samples of this name."""
    done = subprocess.run(["curl", "-sf", "--max-time", "10", f"{url}/metrics"], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(name if "{" in name else name + "{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
