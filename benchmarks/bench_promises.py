"""Who loses how many requests, and who says so: the same hostile engines and clients in front of one router after the other.

It cannot show what real engines do most often: the faults are drawn evenly from a list, far more often than any fleet has
them. Each of 5,000 chat requests meets, by its number alone, a good engine or one fault; an attempt after the first is
good. Some clients leave in mid-stream. *silent* is an answer that ends cleanly with status 200, is not complete and does
not say so; *wrong* has tokens that are not the answer's; *aborted* is a broken connection; *hung* had no end after twelve
seconds; *told* is an error status, whatever its body, or an error event. Then: prompts that came to an address which
only a redirect named, requests still at an engine two seconds after everybody has left, and megabytes that an engine
could send in two seconds for a client that does not read. Routers run with their defaults but for what
``contenders/gateways`` says.

    python benchmarks/bench_promises.py [--requests 5000] [--only evenstep nginx ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import uvloop

import gateway_client as pages
import gateway_peers as peers
from evenstep.load.processes import free_ports
from gateway_engine import MODEL

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.gateway.promises import client as judge
from tests.gateway.promises import engine as e

e.MODEL = MODEL
ENGINES, TOKENS, AT_ONCE, HUNG_S = 3, 12, 48, 12.0
HTML = e.answer_bytes(200, b"<html><body>It works!</body></html>", kind="text/html")
FAULTS = {
    "refused": e.raw(b"", close=True),
    "reset": e.cut(0, reset=True),
    "status 500": e.status(500),
    "status 503": e.status(503),
    "html": e.raw(HTML),
    "empty stream": e.raw(e.STREAM + e.LAST),
    "cut JSON": e.raw(e.answer_bytes(200, b'{"choices":[{"message":{"content":"a"')),
    "error with 200": e.raw(e.answer_bytes(200, b'{"error":{"message":"no"},"object":"error"}')),
    "role, then an end": e.after(0, end="last"),
    "clean end in mid-stream": e.after(5, end="last"),
    "[DONE] in mid-stream": e.after(5, e.chunk(b"data: [DONE]\n\n"), end="last"),
    "cut in mid-stream": e.after(5),
    "reset in mid-stream": e.after(5, end="reset"),
    "error event in mid-stream": e.after(5, e.event({"error": {"message": "broken", "code": 500}}), end="last"),
    "bad JSON in mid-stream": e.after(5, e.chunk(b"data: {oops\n\n"), end="last"),
    "silence in mid-stream": e.after(5, end="hang"),
    "silence": e.hang,
}
#: Of a thousand requests, how many meet each fault; silences are dear in time.
OF_THOUSAND, OF_THOUSAND_SILENT = 8, 1


def fault_of(number: int) -> str:
    """The fault that a request meets at its first attempt; empty for most."""
    place = number * 7919 % 1000  # the same for everybody, spread over the run
    for name in FAULTS:
        place -= OF_THOUSAND_SILENT if name.startswith("silence") else OF_THOUSAND
        if place < 0:
            return name
    return ""


def leaves(number: int) -> bool:
    """Whether this client leaves after its fourth token."""
    return number % 50 == 7 and not fault_of(number)


async def engines() -> None:
    """The engines' process: prints their ports and that of the trap, answers by the schedule, until it is killed."""
    attempts: Counter[str] = Counter()
    plan, trapped = e.Plan(), e.Plan()
    trap = e.HostileEngine("trap", trapped)
    await trap.start()

    async def answer(call: e.Call) -> None:
        words = call.asked["messages"][0]["content"].split()
        key = " ".join(words)
        attempts[key] += 1
        if words[0] == "flood":
            await e.flood(64 * 1024)(call)
        elif words[0] == "redirect":
            await e.status(307, {}, f"Location: {trap.url}/v1/chat/completions")(call)
        elif attempts[key] == 1 and words[0] == "number" and (fault := fault_of(int(words[1]))):
            await FAULTS[fault](call)
        elif words[0] == "number" and leaves(int(words[1])):
            await e.after(5, end="hang")(call)
        else:
            await e.well(call)

    plan.otherwise = answer
    found = [e.HostileEngine(f"e{i}", plan) for i in range(ENGINES)]
    for engine in found:
        await engine.start()
    print(*(engine.port for engine in found), trap.port, flush=True)
    await asyncio.Event().wait()


def ask(text: str, *, stream: bool, tokens: int = TOKENS) -> bytes:
    """A chat request with that prompt."""
    value = {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens,
        "stream": stream,
    }
    key = f"Authorization: Bearer {peers.KEY}"
    return judge.request(orjson.dumps(value), key, path="/v1/chat/completions")


@dataclass(slots=True)
class Tally:
    """What became of a router's requests."""

    verdicts: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    redirected: str = "-"
    open_calls: str = "-"
    pushed_mb: str = "-"


async def one(port: int, number: int, tally: Tally) -> None:
    """One request of the schedule."""
    client = await judge.RawClient.to(port)
    try:
        async with asyncio.timeout(HUNG_S):
            client.send(ask(f"number {number}", stream=number % 5 != 0 or leaves(number)))
            if leaves(number):
                await client.until(lambda: client.received.count(b" w") >= 4)
                tally.verdicts["left"] += 1
                return
            reply = await client.reply()
            found = judge.verdict(reply, TOKENS) if reply.status < 400 else "refused"
    except TimeoutError:
        found = "hung"
    finally:
        client.leave()
    tally.verdicts["told" if found in ("error", "refused") else found] += 1
    if found in ("silent", "wrong"):
        tally.silent[fault_of(number) or "no fault"] += 1


async def schedule(port: int, engine_ports: list[int], requests: int) -> Tally:
    """All of it, against one router."""
    tally, numbers = Tally(), iter(range(requests))

    async def worker() -> None:
        for number in numbers:
            await one(port, number, tally)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    await asyncio.sleep(2)
    tally.open_calls = str(sum([len((await _told(p))["written"]) for p in engine_ports[:-1]]))
    for i in range(20):
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(HUNG_S):
                client = await judge.RawClient.to(port)
                await client.send(ask(f"redirect {i}", stream=True)).reply()
                client.leave()
    tally.redirected = str((await _told(engine_ports[-1]))["asked"])
    client = await judge.RawClient.to(port)
    client.transport.pause_reading()
    client.send(ask("flood", stream=True, tokens=1_000_000))
    await asyncio.sleep(2)
    written = [size for p in engine_ports[:-1] for size in (await _told(p))["written"]]
    tally.pushed_mb = f"{max(written, default=0) / 1e6:.0f}"
    client.leave()
    return tally


async def _told(port: int) -> dict:
    return orjson.loads(await pages.fetched(port, "/told"))


def run(name: str, module, requests: int) -> tuple[str, Tally]:
    """One router with engines of its own.

    Raises:
        AbsentError: it cannot be had or does not start.
    """
    with contextlib.ExitStack() as stack:
        process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
        stack.callback(process.wait)
        stack.callback(process.kill)
        ports = [int(text) for text in process.stdout.readline().split()]
        folder = peers.SCRATCH / "run" / f"promises-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        log, port = folder / "log.txt", free_ports(1)[0]
        version = module.have()
        router = stack.enter_context(peers.started(module.command(folder, ports[:-1], port), 0, log))
        peers.wait_for(port, router, log, ask("hello", stream=False).partition(b"\r\n\r\n")[2])
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return version, runner.run(schedule(port, ports, requests))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--only", nargs="+", choices=peers.ORDER, default=list(peers.ORDER))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(engines())
    faulty = sum(bool(fault_of(n)) for n in range(options.requests))
    print(f"{os.cpu_count()} cores, {platform.release()}, Python {platform.python_version()}")
    print(f"command: python {' '.join(sys.argv)}; {faulty} of {options.requests} requests meet one of {len(FAULTS)} faults")
    columns = ("complete", "told", "left", "aborted", "hung", "wrong", "silent")
    print(f"{'':22}{''.join(f'{c:>9}' for c in columns)}{'redirected':>12}{'still open':>12}{'MB pushed':>11}")
    for name, module in peers.contenders(options.only).items():
        try:
            version, tally = run(name, module, options.requests)
        except peers.AbsentError as absent:
            print(f"{name} is absent: {absent}", flush=True)
            continue
        title = f"{module.NAME} {version.split()[0]}"
        counts = "".join(f"{tally.verdicts[c]:>9}" for c in columns)
        print(f"{title:22}{counts}{tally.redirected:>12}{tally.open_calls:>12}{tally.pushed_mb:>11}")
        for fault, count in tally.silent.most_common():
            print(f"{'':22}  {count} lost at: {fault}", flush=True)


if __name__ == "__main__":
    main()
