"""A soak of who gets which answer: each request carries an id of its own, and its answer has to bring that id back.

Many clients keep their connections and ask again and again, in bursts with pauses between them, whole answers and streams.
The engines go on every few milliseconds with all that is there, so that hundreds of answers come at once, and take one to
four such steps for an answer. An answer with
another id, bytes without a request, a request that reaches a client, an error and silence are all counted, and
none may happen. The engines are raw servers in a process of their own; it cannot show faults, real engines or a network.

    python benchmarks/soak_answers.py [--requests 1000000] [--clients 600] [--shapes engines ranks]

``--checked`` runs the gateway's checked build: a failed check is in its log, and counts as a broken promise.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from evenstep import streams
from evenstep.load.models import get
from evenstep.load.processes import free_ports
from evenstep.load.settings import Target

#: Shapes: how many engines, and ranks of each.
SHAPES = {"engines": (2, 0), "ranks": (1, 8)}
#: Seconds between two steps of an engine, that it keeps an unused connection, and that a client waits for an answer.
TICK_S, IDLE_S, WAIT_S = 0.015, 5.0, 90.0
#: Requests of a client in one burst, events of a stream; one client in STREAMED asks for streams.
ROUNDS, CHUNKS, STREAMED = 25, 4, 20
_ID = re.compile(rb"id=([0-9a-f]+-[0-9a-f]+);")
_LENGTH, _RANK = (
    re.compile(rb"\r\ncontent-length: (\d+)", re.I),
    re.compile(rb"data-parallel-rank: (\d+)", re.I),
)
_MODELS = b'{"object":"list","data":[{"id":"m","object":"model","parent":null}]}'
_METRICS = """vllm:num_requests_running{{engine="{rank}"}} {running}
vllm:num_requests_waiting{{engine="{rank}"}} 0
vllm:kv_cache_usage_perc{{engine="{rank}"}} 0
vllm:cache_config_info{{block_size="16",engine="{rank}",num_gpu_blocks="1000001"}} 1
"""


@dataclass
class Found:
    """What a soak saw.

    Args:
        requests: that were sent. right: answers with the id of their request, and no other.
        wrong: what came instead, by kind. first: the first bytes that were wrong.
        said: lines of the gateway's log that tell of a bug.
        seconds: it took.
    """

    requests: int = 0
    right: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    first: bytes = b""
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def broken(self) -> list[str]:
        """The promises that were not kept."""
        told = [f"{count} times {kind}" for kind, count in self.wrong.items() if count]
        if self.right != self.requests:
            told.append(f"{self.requests - self.right} of {self.requests} requests without their answer")
        return told + self.said + ([f"first: {self.first!r}"] if self.first else [])


# --- engines -----------------------------------------------------------------------------------------------------------


def _whole(status: int, body: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 %d X\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


def _answer(found: bytes, size: int) -> bytes:
    return (
        b'{"id":"c","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"id=%b;%b",'
        b'"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}}'
    ) % (found, b"x" * size, 7 + CHUNKS, CHUNKS)


def _events(found: bytes) -> list[bytes]:
    """The chunks of a stream; each has the id."""
    chunks = [
        b'data: {"id":"c","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"id=%b;",'
        b'"logprobs":null,"finish_reason":%b}],"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}}\n\n'
        % (found, b'"length"' if n == CHUNKS else b"null", 7 + n, n)
        for n in range(1, CHUNKS + 1)
    ]
    return [b"%x\r\n%b\r\n" % (len(one), one) for one in (*chunks, b"data: [DONE]\n\n")]


class Ticks:
    """Engines that share a clock: at each tick every request that is there goes one step on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.running = loop, Counter[int]()
        self.steps: list[tuple[Engine, bytes, list[bytes], int]] = []
        self._tick()

    def _tick(self) -> None:
        self.loop.call_later(TICK_S, self._tick)
        steps, self.steps = self.steps, []
        for engine, found, left, size in steps:
            engine.step(found, left, size)


class Engine(asyncio.Protocol):
    """One connection to an engine."""

    def __init__(self, ticks: Ticks, ranks: int) -> None:
        self.ticks, self.ranks, self.data, self.rank = ticks, ranks, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        self.idle()

    def idle(self) -> None:
        """It has nothing to do: after a while it is closed, as servers do."""
        self.timer = self.ticks.loop.call_later(IDLE_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.timer.cancel()
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        told = _LENGTH.search(head)
        size = int(told[1]) if told else 0
        if not end or len(body) < size:
            return
        self.data = b""
        if b" /v1/models " in head:
            self.transport.write(_whole(200, _MODELS))
        elif b" /metrics " in head:
            page = "".join(
                _METRICS.format(rank=rank, running=self.ticks.running[rank]) for rank in range(max(1, self.ranks))
            )
            self.transport.write(_whole(200, page.encode(), b"text/plain"))
        elif not head.startswith(b"POST /v1/completions "):
            self.transport.write(_whole(404, b"{}"))
        else:
            ids = set(_ID.findall(body))
            if len(ids) != 1 or len(body) != size:
                self.transport.write(_whole(400, b'{"error":{"message":"not one whole request"}}'))
                return
            (found,), rank = ids, _RANK.search(head)
            self.rank = int(rank[1]) if rank else 0
            self.ticks.running[self.rank] += 1
            left = _events(found) if b'"stream": true' in body else []
            self.ticks.steps.append((self, found, left, hash(found) % 400))

    def step(self, found: bytes, left: list[bytes], size: int) -> None:
        """One step on with a request."""
        if len(left) == CHUNKS + 1:
            self.transport.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        if len(left) > 2:
            self.transport.write(left.pop(0))
            self.ticks.steps.append((self, found, left, size))
        elif not left and size % 4:
            self.ticks.steps.append((self, found, left, size - 1))
        else:
            self.ticks.running[self.rank] -= 1
            self.idle()
            self.transport.write(b"".join(left) + b"0\r\n\r\n" if left else _whole(200, _answer(found, size)))


async def engines(ports: list[int], ranks: int) -> None:
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    ticks = [Ticks(loop) for _ in ports]
    for port, tick in zip(ports, ticks, strict=True):
        await loop.create_server(lambda tick=tick: Engine(tick, ranks), "127.0.0.1", port, backlog=4096)
    await asyncio.Event().wait()


# --- clients -----------------------------------------------------------------------------------------------------------


class Asker(asyncio.Protocol):
    """A client that keeps its connection."""

    def __init__(self, number: int, found: Found) -> None:
        self.number, self.found, self.count = number, found, 0
        self.data, self.whole, self.mine, self.is_stream = b"", asyncio.Event(), b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if not self.mine:
            self.wrong("bytes without a request")
            return
        head, end, body = self.data.partition(b"\r\n\r\n")
        told = _LENGTH.search(head)
        is_over = len(body) >= int(told[1]) if told else body.endswith(b"0\r\n\r\n")
        if end and is_over:
            self.judge(head, body, int(told[1]) if told else len(body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.mine:
            self.wrong("a connection that was closed")

    def judge(self, head: bytes, body: bytes, size: int) -> None:
        """An answer came whole."""
        ids = _ID.findall(body)
        if not head.startswith(b"HTTP/1.1 200"):
            self.wrong(f"an answer {head[:40]!r}")
        elif set(ids) - {self.mine}:
            self.wrong("an answer of another request")
        elif len(ids) != (CHUNKS if self.is_stream else 1) or len(body) != size:
            self.wrong("an answer in part, or more than one")
        else:
            self.found.right += 1
        self.data, self.mine = b"", b""
        self.whole.set()

    def wrong(self, kind: str) -> None:
        self.found.wrong[kind] += 1
        self.found.first = self.found.first or self.data[:400]
        self.whole.set()

    async def ask(self, times: int) -> None:
        """Ask so often, one request after the other."""
        for _ in range(times):
            self.count += 1
            chance = float(streams.uniform(7, "soak-answers", self.number, self.count))
            self.is_stream = self.number % STREAMED == 0
            self.mine, self.data = b"%x-%x" % (self.number, self.count), b""
            prompt = f"id={self.mine.decode()};{'y' * int(600 * chance)}"
            more = {"stream": True} if self.is_stream else {}
            body = json.dumps({"model": "m", **more, "max_tokens": CHUNKS, "prompt": prompt}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            self.whole.clear()
            self.found.requests += 1
            self.transport.write(head.encode() + body)
            try:
                await asyncio.wait_for(self.whole.wait(), WAIT_S)
            except TimeoutError:
                self.wrong("no answer")
                return
            if self.transport.is_closing():
                return


async def asked(port: int, clients: int, requests: int, pause_s: float) -> Found:
    """Send everything, in bursts of all clients."""
    loop, found = asyncio.get_running_loop(), Found()
    begin_s = time.monotonic()
    askers: list[Asker] = []
    for number in range(clients):
        _, asker = await loop.create_connection(lambda n=number: Asker(n, found), "127.0.0.1", port)
        askers.append(asker)
    rounds = max(1, round(requests / clients / ROUNDS))
    for _ in range(rounds):
        here = [asker for asker in askers if not asker.transport.is_closing()]
        await asyncio.gather(*(asker.ask(ROUNDS) for asker in here))
        await asyncio.sleep(pause_s)
    for asker in askers:
        asker.mine = b""
        asker.transport.close()
    found.seconds = time.monotonic() - begin_s
    return found


# --- all of it ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _process(words: list[str], said: Path, **more: str) -> Generator[subprocess.Popen[bytes]]:
    with said.open("wb") as out:
        process = subprocess.Popen([sys.executable, *words], stdout=out, stderr=subprocess.STDOUT, env=os.environ | more)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(port: int, path: str, process: subprocess.Popen[bytes], said: Path) -> None:
    end_s = time.monotonic() + 600.0
    while process.poll() is None and time.monotonic() < end_s:
        with contextlib.suppress(Exception):
            if get(Target("127.0.0.1", port, False, ""), path)[0] == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"it does not answer: {said.read_text()[-2000:]}")


def soak(requests: int, *, shape: str, clients: int = 600, pause_s: float = 0.3, checked: bool = False) -> Found:
    """Run it once.

    Args:
        shape: one of `SHAPES`. pause_s: between two bursts.
        checked: whether the gateway runs its checked build.
    """
    count, ranks = SHAPES[shape]
    gateway, *ports = free_ports(1 + count)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        said, heard = Path(folder, "gateway"), Path(folder, "engines")
        words = [__file__, "--serve", *map(str, ports), "--ranks", str(ranks)]
        process = stack.enter_context(_process(words, heard))
        for port in ports:
            _until(port, "/v1/models", process, heard)
        slots = clients if ranks == 0 else max(1, clients // ranks)
        workers = [{"url": f"http://127.0.0.1:{port}"} | ({"ranks": ranks} if ranks else {}) for port in ports]
        config = {
            "version": 1,
            "listen": {"port": gateway},
            "admin": {"enabled": False},
            "policy": "jsq",
            "slots": slots,
            "workers": workers,
        }
        path = Path(folder, "gateway.yaml")
        path.write_text(json.dumps(config))
        build = {"EVENSTEP_CHECKED": "1"} if checked else {}
        served = stack.enter_context(_process(["-m", "evenstep", "serve", "--config", str(path)], said, **build))
        _until(gateway, "/readyz", served, said)
        found = asyncio.run(asked(gateway, clients, requests, pause_s))
        if served.poll() is not None:
            found.wrong[f"a gateway that ended with {served.returncode}"] += 1
        text = said.read_text(errors="replace")
        if checked != ("checked" in text):
            found.wrong["a build that was not asked for"] += 1
        found.said = [line for line in text.splitlines() if re.search(r"Traceback|Error\b|Exception", line)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000, help="of all runs together")
    parser.add_argument("--clients", type=int, default=600)
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=sorted(SHAPES))
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two bursts")
    parser.add_argument("--checked", action="store_true", help="run the gateway's checked build")
    parser.add_argument("--serve", nargs="+", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(engines(options.serve, options.ranks))
        return 0
    print(f"{options.clients} clients{', checked build' if options.checked else ''}", flush=True)
    is_broken = False
    for shape in options.shapes:
        share = options.requests // len(options.shapes)
        found = soak(share, shape=shape, clients=options.clients, pause_s=options.pause, checked=options.checked)
        broken = found.broken()
        is_broken |= bool(broken)
        print(
            f"{shape}: {found.right:,} of {found.requests:,} answers belong to their request, in {found.seconds:.0f} s",
            flush=True,
        )
        for line in broken[:12]:
            print(f"  broken: {line}")
    return 1 if is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
