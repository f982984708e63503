"""CPU of one gateway on traffic whose requests all differ, as a ratio to nginx and to other routers in the same run.

Eight kinds of client send it: other headers in another order, another key, model, sampling parameters, chat or completions,
0.2 to 8 kB. Each request has its own ``traceparent``, ``max_tokens`` and ``seed``. The gateway checks keys, writes an
access log and a decision log, and serves metrics. Engines are raw servers in one process; ``bare`` ones tell neither token
ids nor counts in a chunk. Rounds of the contenders alternate; a ratio is the median over the rounds. CPU is user and system
time of a router's whole process tree. The peers, modules of ``contenders/gateways``, pass bytes on: they check no keys,
write no log and count no tokens. A peer that cannot be had is printed as absent.

    python benchmarks/bench_mixed.py [--rounds 5] [--policies br-0 best] [--peers vllm_router sglang_router]
                                     [--rows kept new ...] [--engines full bare]

It cannot show a network, TLS or real engines. Client and engines share one core; the router has the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

import gateway_client as client
import gateway_peers as peers
from evenstep.load.processes import free_ports
from gateway_engine import MODEL

ROUTER_CORE, LOAD_CORE = 0, min(1, (os.cpu_count() or 1) - 1)
ALIASES = [f"alias-{i}" for i in range(3)]


@dataclass(frozen=True, slots=True)
class Client:
    """One kind of client.

    Args:
        path: of its requests.
        key: its API key.
        heads: lines of its heads, in its order; ``{}`` stands for what differs.
        prompt_bytes: of its prompts.
        members: of its bodies, beside prompt, ``max_tokens`` and ``seed``.
        is_prompt_last: whether the prompt is the last member.
    """

    path: str
    key: str
    heads: tuple[str, ...]
    prompt_bytes: int
    members: dict[str, object]
    is_prompt_last: bool

    def request(self, number: int, tokens: int, prompt_bytes: int = 0, **more: object) -> bytes:
        """A request that no other equals."""
        size = prompt_bytes or self.prompt_bytes
        text = f"{more.pop('pace', '')}{number:09d} {'word ' * (size // 5)}"
        prompt = (
            {"prompt": text}
            if self.path.endswith("/completions") and "chat" not in self.path
            else {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]}
        )
        rest = {**self.members, "max_tokens": tokens, "seed": number, **more}
        body = json.dumps({**rest, **prompt} if self.is_prompt_last else {**prompt, **rest}).encode()
        lines = [line.format(trace=f"{number:032x}", size=len(body)) for line in self.heads]
        return "\r\n".join([f"POST {self.path} HTTP/1.1", *lines, "", ""]).encode() + body


def clients() -> list[Client]:
    """The eight kinds."""
    chat, text, found = "/v1/chat/completions", "/v1/completions", []
    kinds: list[tuple[str, int, dict[str, object]]] = [
        (chat, 200, {"model": MODEL}),
        (chat, 600, {"model": ALIASES[0], "temperature": 0.7, "top_p": 0.9}),
        (text, 300, {"model": MODEL, "temperature": 0.0, "stop": ["\n\n"]}),
        (chat, 1500, {"model": MODEL, "tools": [], "user": "ann", "presence_penalty": 0.1}),
        (text, 2500, {"model": ALIASES[1], "logprobs": None, "n": 1}),
        (chat, 4000, {"model": MODEL, "stream": False, "response_format": {"type": "text"}}),
        (chat, 8000, {"model": ALIASES[2], "temperature": 1.0, "top_k": 40, "min_p": 0.05}),
        (text, 800, {"model": MODEL, "echo": False, "best_of": 1, "ignore_eos": True}),
    ]
    for i, (path, size, members) in enumerate(kinds):
        key = f"{peers.KEY}-{i}"
        lines = [
            "Host: gateway.example",
            f"Authorization: Bearer {key}",
            "Content-Type: application/json",
            "Content-Length: {size}",
            f"User-Agent: client-{i}/1.{i}",
            "traceparent: 00-{trace}-00f067aa0ba902b7-01",
            "Accept: */*" if i % 2 else "Accept: application/json",
            "Accept-Encoding: gzip, deflate",
            *(["X-Stainless-Lang: python", "X-Stainless-Async: false"] if i % 3 == 0 else []),
        ]
        random.Random(i).shuffle(lines)
        found.append(Client(path, key, tuple(lines), size, members, is_prompt_last=i % 2 == 0))
    return found


CLIENTS, NUMBERS = clients(), itertools.count(1)


def mixed(tokens: int | None = None, size: int = 0, **more: object) -> Iterator[bytes]:
    """Requests of all kinds in turn."""
    while True:
        number = next(NUMBERS)
        one = CLIENTS[number % len(CLIENTS)]
        yield one.request(number, tokens or 1 + number % 4, size, **more)


def config(port: int, admin: int, engines: list[int], policy: str, log: str) -> dict[str, object]:
    """Of the gateway."""
    return {
        "version": 1,
        "listen": {"port": port},
        "admin": {"port": admin},
        "policy": policy,
        "workers": [{"url": f"http://127.0.0.1:{engine}"} for engine in engines],
        "keys": [{"key": one.key, "tenant": f"t{i % 3}", "classes": ["*"]} for i, one in enumerate(CLIENTS)],
        "aliases": dict.fromkeys(ALIASES, MODEL),
        "classes": {"usual": {"ttft_s": 2.0}},
        "log": {"access": True},
        "decisions": {"path": log},
    }


async def requests(port: int, count: int, is_kept: bool, size: int = 0) -> int:
    """Whole answers, 32 at a time; how many units of work."""
    left, traffic, loop = iter(range(count)), mixed(size=size), asyncio.get_running_loop()

    def following() -> bytes | None:
        return next(traffic) if next(left, None) is not None else None

    async def one() -> None:
        while True:
            data = following()
            if data is None:
                return
            first, done = iter([data]), loop.create_future()
            rest = following if is_kept else lambda: None
            ask = lambda f=first, r=rest: next(f, None) or r()  # noqa: E731
            _, caller = await loop.create_connection(lambda a=ask, d=done: client.Caller(a, d), "127.0.0.1", port)
            await done
            if caller.busy or caller.refused:
                raise RuntimeError(f"an answer was lost or refused: {caller.refused[:1]}")

    await asyncio.gather(*(one() for _ in range(32)))
    return count


async def streams(port: int, count: int, pace_ms: int, writes: int, burst: int) -> int:
    """Streams at once; tokens of all."""
    traffic, tokens = (
        mixed(writes * burst, 200, stream=True, pace=f"pace={pace_ms}/{burst}/0 "),
        writes * burst,
    )
    events, _ = await client.streams(port, count, max(pace_ms, 1) / 1e3, lambda _: next(traffic))
    if events < 0.999 * count * tokens:
        raise RuntimeError(f"{events} events came of {count * tokens}")
    return count * tokens


async def short(port: int, count: int) -> int:
    """Streams of 16 tokens one after the other, 32 at a time; how many."""
    traffic, left, loop = (
        mixed(16, 200, stream=True, pace="pace=1/1/0 "),
        iter(range(count)),
        asyncio.get_running_loop(),
    )

    async def one() -> None:
        done = loop.create_future()
        ask = lambda: next(traffic) if next(left, None) is not None else None  # noqa: E731
        _, caller = await loop.create_connection(lambda: client.Caller(ask, done), "127.0.0.1", port)
        await done
        if caller.busy or caller.refused:
            raise RuntimeError(f"an answer was lost or refused: {caller.refused[:1]}")

    await asyncio.gather(*(one() for _ in range(32)))
    return count


Work = Callable[[int], Awaitable[int]]
#: Title, goals as ratios to nginx and to each router (0 = no goal), and the work.
ROWS: dict[str, tuple[str, float, float, Work]] = {
    "kept": ("a request, kept connections", 1.8, 0.7, lambda port: requests(port, 4000, is_kept=True)),
    "new": ("a request, new connections", 1.8, 0.7, lambda port: requests(port, 1500, is_kept=False)),
    "8kB": ("a request of 8 kB", 1.6, 0.0, lambda port: requests(port, 2000, is_kept=True, size=8000)),
    "220kB": ("a request of 220 kB", 2.5, 1.0, lambda port: requests(port, 128, is_kept=True, size=220_000)),
    "short": ("a streamed answer of 16 tokens", 0.0, 0.8, lambda port: short(port, 800)),
    "chunk": ("a chunk, 64 streams at 20 ms", 1.25, 1.0, lambda port: streams(port, 64, 20, 100, 1)),
    "burst": ("a token of bursts of 8", 1.5, 0.55, lambda port: streams(port, 64, 20, 60, 8)),
}
Found = dict[tuple[str, str], list[float]]


async def measured(routers: dict[str, tuple[int, int]], rows: list[str], rounds: int) -> Found:
    """CPU microseconds of a unit, one a round, by row and router."""
    found: Found = {}
    for port, _ in routers.values():  # warm connections and caches
        await requests(port, 400, is_kept=True)
        await streams(port, 8, 5, 10, 1)
    for number, row in itertools.product(range(rounds), rows):
        names = list(routers)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            port, pid = routers[name]
            before = peers.cpu_s(pid)
            units = await ROWS[row][-1](port)
            found.setdefault((row, name), []).append((peers.cpu_s(pid) - before) / units * 1e6)
    return found


def run(options: argparse.Namespace, is_bare: bool) -> None:
    """All rows with engines that tell token ids and counts, or with those that do not."""
    folder = peers.SCRATCH / "run" / "mixed"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        words = [sys.executable, str(peers.HERE / "gateway_engine.py"), "2", *(["--bare"] if is_bare else [])]
        engine = subprocess.Popen(["taskset", "-c", str(LOAD_CORE), *words], stdout=subprocess.PIPE, text=True)
        stack.callback(engine.wait)
        stack.callback(engine.kill)
        engines = [int(text) for text in engine.stdout.readline().split()]
        routers = started(stack, options, engines, folder)
        os.sched_setaffinity(0, {LOAD_CORE})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(measured(routers, options.rows, options.rounds))
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    show(found, options.rows, [name for name in routers if name != "nginx"], options.policies)


def started(
    stack: contextlib.ExitStack, options: argparse.Namespace, engines: list[int], folder: Path
) -> dict[str, tuple[int, int]]:
    """Port and process of each router that could be started."""
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}).encode()
    found: dict[str, tuple[int, int]] = {}
    modules = peers.contenders(["nginx", *options.peers])
    for name in (*modules, *options.policies):
        port, log = free_ports(1)[0], folder / f"{name}.txt"
        try:
            if name in modules:
                print(f"{name} {modules[name].have()}")
                command = modules[name].command(folder, engines, port)
            else:
                peers.compile_kernels(name)
                path = folder / f"{name}.json"
                path.write_text(json.dumps(config(port, free_ports(1)[0], engines, name, str(folder / f"{name}.log"))))
                command = [sys.executable, "-m", "evenstep", "serve", "--config", str(path)]
            process = stack.enter_context(peers.started(command, ROUTER_CORE, log))
            peers.wait_for(port, process, log, body, key=CLIENTS[0].key)
        except peers.AbsentError as error:
            if name not in options.peers:
                raise
            print(f"{name} is absent: {error}")
            continue
        found[name] = port, process.pid
    return found


def show(found: Found, rows: list[str], names: list[str], policies: list[str]) -> None:
    """Print each router as a ratio to nginx, and the gateway as one to each other router."""
    others = [name for name in names if name not in policies]
    pairs = [(name, "nginx") for name in names] + list(itertools.product(policies, others))
    for row in rows:
        title, goal, goal_to_peers, _ = ROWS[row]
        print(f"{title}: " + ", ".join(f"{name} {median(found[row, name]):.1f} us" for name in ("nginx", *names)))
        for name, base in pairs:
            ratios = [ours / theirs for ours, theirs in zip(found[row, name], found[row, base], strict=True)]
            wanted = 0.0 if name in others else goal if base == "nginx" else goal_to_peers
            aim = f"   goal {wanted}" if wanted else ""
            print(
                f"    {name + ' / ' + base:28}{median(ratios):6.2f} [{min(ratios):.2f}, {max(ratios):.2f}]{aim}", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policies", nargs="+", default=["br-0", "best"])
    parser.add_argument("--peers", nargs="*", choices=peers.ORDER[2:4], default=["vllm_router", "sglang_router"])
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--engines", nargs="+", choices=("full", "bare"), default=["full", "bare"])
    options = parser.parse_args()
    for kind in options.engines:
        print(f"{kind} engines")
        run(options, kind == "bare")


if __name__ == "__main__":
    main()
