"""Whether one process of `evenstep emulate` keeps its pace: open streams, steps of a stated length, CPU a token.

It cannot show what a slow client costs, nor a network: the client is one process on the same machine that reads and counts
bytes, and takes a core of its own. Steps have the same length at any load (the law has no term in tokens), so that
pace is easy to judge. CPU is the emulator's own count, over the time in which every stream was open.

    python benchmarks/bench_emulator.py [--streams 4000 --step-ms 150] [--usage each] [--seconds 10]
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import re
import subprocess
import sys
from importlib.metadata import version

import uvloop

CASES = ((4000, 150.0), (800, 30.0))
PAUSE_S = 2.0


class Stream(asyncio.Protocol):
    """Sends one request and counts what comes back."""

    def __init__(self, request: bytes, counts: list[int]) -> None:
        self.request, self.counts = request, counts

    def connection_made(self, transport):
        transport.write(self.request)

    def data_received(self, data):
        self.counts[0] += data.count(b"data: ")
        self.counts[1] += 1


def body(usage: str) -> bytes:
    """A completion that goes on until it is left."""
    options = {
        "never": "",
        "last": ',"stream_options":{"include_usage":true}',
        "each": ',"stream_options":{"include_usage":true,"continuous_usage_stats":true},"return_token_ids":true',
    }[usage]
    start = '{"prompt":"a prompt of some words","max_tokens":100000,"ignore_eos":true,"stream":true'
    return f"{start}{options}}}".encode()


async def metrics(port: int) -> dict[str, float]:
    """Those of the emulator's own figures that are needed here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    wanted = ("evenstep:steps_total", "evenstep:late_steps_total", "process_cpu_seconds_total")
    return {name: float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M)[1]) for name in wanted}


async def measured(port: int, streams: int, seconds: float, usage: str) -> tuple[dict[str, float], list[int], float]:
    """Differences of the figures over so many seconds with all streams open, the client's counts, and its CPU time."""
    loop, counts = asyncio.get_running_loop(), [0, 0]
    content = body(usage)
    request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(content),
        content,
    )
    opened = []
    for _ in range(streams):
        transport, _ = await loop.create_connection(lambda: Stream(request, counts), "127.0.0.1", port)
        opened.append(transport)
    await asyncio.sleep(PAUSE_S)
    before, start = await metrics(port), loop.time()
    counts[:] = [0, 0]
    await asyncio.sleep(seconds)
    found, took = list(counts), loop.time() - start
    after = await metrics(port)
    for transport in opened:
        transport.abort()
    return {name: after[name] - before[name] for name in before}, found, took


def case(streams: int, step_ms: float, seconds: float, usage: str) -> str:
    """One row of the table."""
    flags = f"--ranks 8 --slots {-(-streams // 8)} --port 0 --per-token-s 0 --overhead-s {step_ms / 1e3}"
    command = [sys.executable, "-m", "evenstep", "emulate", *flags.split()]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        engine.stdout.readline()
        port = int(re.search(r":(\d+) ", engine.stdout.readline())[1])
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            moved, counts, took = runner.run(measured(port, streams, seconds, usage))
    finally:
        engine.terminate()
        engine.wait()
    achieved_ms = 1e3 * took / moved["evenstep:steps_total"]
    cpu_s = moved["process_cpu_seconds_total"]
    late = moved["evenstep:late_steps_total"]
    return (
        f"{streams:>7} {step_ms:>8.0f} {achieved_ms:>10.1f} {late:>6.0f} {counts[0] / took:>9.0f} "
        f"{cpu_s / took:>6.0%} {1e6 * cpu_s / counts[0]:>9.1f} {usage:>6}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int)
    parser.add_argument("--step-ms", type=float, default=150.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--usage", choices=["never", "last", "each"])
    asked = parser.parse_args()
    used = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "httptools"))
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {used}")
    print("streams  step ms  achieved   late  events/s    CPU  us/token  usage")
    for streams, step_ms in [(asked.streams, asked.step_ms)] if asked.streams else CASES:
        for usage in [asked.usage] if asked.usage else ("never", "each"):
            print(case(streams, step_ms, asked.seconds, usage), flush=True)


if __name__ == "__main__":
    main()
