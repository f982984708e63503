"""What `evenstep serve` costs beside other routers: CPU of a request and of a chunk, added latency, time to hear of a leave.

It cannot show a network, TLS or real engines: engines are raw servers in one process (`gateway_engine`), client and
engines share one core, the router has the other, and on a machine with two cores the kernel's own work disturbs both.
Contenders do not do the same work: nginx, vllm-router and sglang-router pass bytes on; LiteLLM checks and counts; ours
checks keys, counts the tokens of every chunk, keeps the mirror, scrapes the engines and decides by br-0. CPU is user
and system time of a router's whole process tree. Streams begin one after the other over one pause between chunks, so
that chunks of different streams do not come at once. Rounds of the contenders alternate; a claim is judged by the median
over rounds of the ratio within a round. Peers are installed under ``build/peers``; one that cannot be had is printed as
absent. `bare` hands bytes from socket to socket and does nothing else: the least that a router in Python can cost.

    python benchmarks/bench_gateway.py [--rounds 5] [--engines 2 8] [--only evenstep nginx ...] [--rows request chunk ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import orjson
import uvloop

import gateway_client as client
import gateway_peers as peers
from evenstep.load.processes import free_ports

ROUTER_CORE, LOAD_CORE = 0, min(1, (os.cpu_count() or 1) - 1)
SMALL, LARGE, HUGE = "word " * 30, "word " * 1600, "word " * 44_000
DIRECT = "direct"


@dataclass(slots=True)
class Router:
    """A running router; `pid` 0 is the engine itself, without any."""

    name: str
    port: int
    pid: int
    share: float
    engines: list[int]
    version: str = ""

    def ask(self, tokens: int, prompt: str, stream: bool) -> bytes:
        return client.request(self.port, peers.KEY, tokens, prompt, stream)


@dataclass(slots=True)
class Taken:
    """One measurement: CPU microseconds of a unit, and milliseconds of latency; nan where a row has none."""

    cpu_us: float = float("nan")
    ms: float = float("nan")


Measure = Callable[[Router], Awaitable[Taken]]


async def _weighed(router: Router, work: Awaitable[object], units: float) -> float:
    before = peers.cpu_s(router.pid) if router.pid else 0.0
    await work
    return ((peers.cpu_s(router.pid) if router.pid else 0.0) - before) / units * 1e6


def _requests(count: int, prompt: str) -> Measure:
    async def measure(router: Router) -> Taken:
        total = max(64, int(count * router.share))
        ask = router.ask(1, prompt, False)
        return Taken(await _weighed(router, client.closed_loop(router.port, 32, total, ask), total))

    return measure


def _streams(count: int, pace_ms: int, writes: int, burst: int) -> Measure:
    async def measure(router: Router) -> Taken:
        streams, tokens = max(4, int(count * router.share)), writes * burst
        ask = router.ask(tokens, f"pace={pace_ms}/{burst}/0 {SMALL}", True)
        found: list[tuple[int, list[float]]] = []

        async def work() -> None:
            found.append(await client.streams(router.port, streams, pace_ms / 1e3, lambda i: ask))

        cpu_us = await _weighed(router, work(), streams * tokens)
        events, ages = found[0]
        if events < 0.999 * streams * (tokens + 1):
            raise RuntimeError(f"{events} events came of {streams * (tokens + 2)}")
        return Taken(cpu_us, 1e3 * median(ages))

    return measure


def _alone(count: int, prompt: str) -> Measure:
    async def measure(router: Router) -> Taken:
        seconds: list[float] = []

        async def work() -> None:
            seconds.append(await client.one_by_one(router.port, count, router.ask(1, prompt, False)))

        cpu_us = await _weighed(router, work(), count + 1)
        return Taken(cpu_us, 1e3 * seconds[0])

    return measure


_KEYS = itertools.count(1)


async def _leaving(router: Router) -> Taken:
    """The slowest of twenty: a client leaves in mid-stream, its engine sees the connection go."""
    left: dict[str, int] = {}
    for key in itertools.islice(_KEYS, 20):
        ask = router.ask(100_000, f"pace=20/1/{key} {SMALL}", True)
        left[str(key)] = await client.leave(router.port, ask)
    for _ in range(100):
        await asyncio.sleep(0.05)
        gone: dict[str, int] = {}
        for engine in router.engines:
            gone |= orjson.loads(await client.fetched(engine, "/gone"))
        if left.keys() <= gone.keys():
            return Taken(ms=max(gone[key] - at for key, at in left.items()) / 1e6)
    return Taken(ms=float("inf"))


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured."""

    title: str
    unit: str
    measure: Measure
    added: bool = False  # milliseconds are beyond those without a router


ROWS = {
    "request": Row("a request, 32 at a time", "request", _requests(8000, SMALL)),
    "8kB": Row("a request of 8 kB, 32 at a time", "request", _requests(6000, LARGE)),
    "chunk": Row("64 streams, a chunk every 20 ms", "chunk", _streams(64, 20, 200, 1), added=True),
    "burst": Row("64 streams, 8 tokens a write, every 20 ms", "token", _streams(64, 20, 150, 8), added=True),
    "256": Row("256 streams, a chunk every 20 ms", "chunk", _streams(256, 20, 100, 1), added=True),
    "220kB": Row("a request of 220 kB, alone", "request", _alone(40, HUGE), added=True),
    "leave": Row("20 clients leave in mid-stream, the slowest", "-", _leaving),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """Ours against a peer's (a ratio of CPU), or against a number of milliseconds where `peer` is empty."""

    row: str
    peer: str
    most: float
    text: str = field(default="")


CLAIMS = (
    Claim("request", "nginx", 1.7),
    Claim("request", "vllm_router", 0.6),
    Claim("request", "sglang_router", 0.4),
    Claim("8kB", "nginx", 1.5),
    Claim("chunk", "nginx", 1.3),
    Claim("chunk", "vllm_router", 1.0),
    Claim("chunk", "sglang_router", 1.0),
    Claim("burst", "vllm_router", 0.55),
    Claim("burst", "sglang_router", 0.55),
    Claim("chunk", "", 0.3, "added latency, median"),
    Claim("256", "", 0.4, "added latency, median"),
    Claim("220kB", "", 1.0, "added latency, median"),
    Claim("leave", "", 50.0, "until the engine knows, slowest"),
)

Results = dict[tuple[str, str], list[Taken]]  # (row, contender) -> one a round


async def _rounds(routers: list[Router], rows: list[str], rounds: int) -> Results:
    """Everything measured; a contender that fails in a row is left out of it from then on, and it is said."""
    taken: Results = {}
    failed: set[tuple[str, str]] = set()
    for router in routers:
        with contextlib.suppress(RuntimeError, OSError):
            await ROWS["request"].measure(router)  # warm connections and caches
            await _streams(16, 5, 20, 1)(router)
    for number in range(rounds):
        for row in rows:
            order = routers[number % len(routers) :] + routers[: number % len(routers)]
            for router in order:
                if (row, router.name) in failed or (router.pid == 0 and row == "leave"):
                    continue
                try:
                    taken.setdefault((row, router.name), []).append(await ROWS[row].measure(router))
                except (RuntimeError, OSError) as error:
                    failed.add((row, router.name))
                    taken.pop((row, router.name), None)
                    print(f"  {router.name} left out of {row}: {error}", flush=True)
    return taken


def _shown(taken: Results, routers: list[Router], rows: list[str]) -> None:
    print(f"\n{'median over rounds':44}" + "".join(f"{router.name:>16}" for router in routers))
    for row in rows:
        cpu = f"{ROWS[row].title}, us"
        print(f"{cpu:44}" + "".join(f"{_cell(taken, row, router.name, 'cpu_us'):>16}" for router in routers))
        if ROWS[row].added or row == "leave":
            title = "  ... ms until it came" if row != "leave" else "  ... ms until the engine knew"
            print(f"{title:44}" + "".join(f"{_cell(taken, row, router.name, 'ms'):>16}" for router in routers))


def _cell(taken: Results, row: str, name: str, what: str) -> str:
    values = [getattr(found, what) for found in taken.get((row, name), [])]
    if not values or values[0] != values[0]:
        return "-"
    return f"{median(values):.3f}" if what == "ms" else f"{median(values):.1f}"


def _judged(taken: Results, rows: list[str]) -> None:
    """Prints each claim with what was found."""
    print(f"\n{'claim':58}{'found':>8}{'least':>8}{'most':>8}{'floor':>8}")
    for claim in CLAIMS:
        ours, theirs = taken.get((claim.row, "evenstep")), taken.get((claim.row, claim.peer or DIRECT))
        if claim.row not in rows or not ours:
            continue
        if claim.peer:
            title = f"{ROWS[claim.row].title}: CPU to {claim.peer}"
            values = [a.cpu_us / b.cpu_us for a, b in zip(ours, theirs, strict=True)] if theirs else []
        else:
            title = f"{ROWS[claim.row].title}: ms, {claim.text}"
            added = ROWS[claim.row].added
            values = [a.ms - b.ms for a, b in zip(ours, theirs or ours, strict=True)] if added else [a.ms for a in ours]
        if not values:
            print(f"{title:58}{'absent':>8}")
            continue
        found = median(values)
        verdict = "" if found <= claim.most else "  not held"
        print(f"{title:58}{found:8.2f}{min(values):8.2f}{max(values):8.2f}{claim.most:8.2f}{verdict}")


def run(count: int, options: argparse.Namespace) -> None:
    """All rounds with so many engines."""
    with contextlib.ExitStack() as stack:
        script = str(peers.HERE / "gateway_engine.py")
        engine = subprocess.Popen(
            ["taskset", "-c", str(LOAD_CORE), sys.executable, script, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(engine.wait)
        stack.callback(engine.kill)
        ports = [int(text) for text in engine.stdout.readline().split()]
        routers = [Router(DIRECT, ports[0], 0, 1.0, ports)]
        body = client.request(0, "", 1, SMALL, False).partition(b"\r\n\r\n")[2]
        for name, module in peers.contenders(options.only).items():
            folder = peers.SCRATCH / "run" / f"{name}-{count}"
            folder.mkdir(parents=True, exist_ok=True)
            log, port = folder / "log.txt", free_ports(1)[0]
            try:
                version = module.have()
                process = stack.enter_context(peers.started(module.command(folder, ports, port), ROUTER_CORE, log))
                peers.wait_for(port, process, log, body)
            except peers.AbsentError as absent:
                print(f"  {name} is absent: {absent}", flush=True)
                continue
            routers.append(Router(name, port, process.pid, module.SHARE, ports, version))
        print(f"\n{count} engines; " + ", ".join(f"{r.name} {r.version}" for r in routers[1:]), flush=True)
        os.sched_setaffinity(0, {LOAD_CORE})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            taken = runner.run(_rounds(routers, options.rows, options.rounds))
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        _shown(taken, routers, options.rows)
        _judged(taken, options.rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--only", nargs="+", choices=[*peers.ORDER, "bare"], default=list(peers.ORDER))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    print(f"{model}, {os.cpu_count()} cores, {platform.release()}, Python {platform.python_version()}")
    print(f"command: python {' '.join(sys.argv)}; router on core {ROUTER_CORE}, client and engines on core {LOAD_CORE}")
    for count in options.engines:
        run(count, options)


if __name__ == "__main__":
    main()
