"""What one gateway process carries: a thousand streams at 40 ms a token, two thousand requests a second, and nothing at all.

Engines are emulated with steps of the same length at any load; `evenstep load` is the client. Each is a process of its
own, so on two cores they take turns: `late` says whether the engines kept their pace, and whoever reads a figure looks at it
first. CPU and memory are the gateway's, as the system counts them, while all streams are open. It shows no network
and no TLS.

    python benchmarks/bench_gateway_streams.py [--streams 1000 --step-ms 40 --seconds 15] [--rate 2000] [--policy best]
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import threading
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np

from evenstep.load.processes import beside, cpu_s, free_ports, resident_mb
from evenstep.load.run import Outcome, drive, timed
from evenstep.load.settings import LoadSettings, Target
from evenstep.load.summary import summary
from evenstep.load.watching import Sample, watched
from evenstep.request import Trace
from gateway_peers import compile_kernels

RANKS = 8


class Process:
    """CPU and memory of one process, looked at ten times a second by a thread."""

    def __init__(self, pid: int) -> None:
        self.pid, self.at, self.over = pid, [], threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        while not self.over.wait(0.1):
            self.at.append((time.monotonic(), cpu_s(self.pid), resident_mb(self.pid)))

    def end(self) -> None:
        self.over.set()
        self.thread.join()

    def between(self, first_s: float, last_s: float) -> tuple[float, float]:
        """Share of a core, and most megabytes, between two times."""
        seen = [one for one in self.at if first_s <= one[0] <= last_s]
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]), max(one[2] for one in seen)


@contextmanager
def running(step_ms: float, slots: int, policy: str):
    """Engines and a gateway: URL of the gateway, page of the engines, process id of the gateway."""
    compile_kernels(policy)
    engine, gateway, admin = free_ports(3)
    words = [
        "emulate",
        "--port",
        str(engine),
        "--ranks",
        str(RANKS),
        "--slots",
        str(slots),
        "--per-token-s",
        "0",
    ]
    words += ["--overhead-s", str(step_ms / 1e3), "--prefill-per-token-s", "0", "--token-budget", "0"]
    with beside(words, engine, "/health", 60.0), tempfile.TemporaryDirectory() as folder:
        config = {
            "version": 1,
            "listen": {"port": gateway},
            "admin": {"port": admin},
            "policy": policy,
            "slots": slots,
            "workers": [{"url": f"http://127.0.0.1:{engine}", "ranks": RANKS}],
        }
        path = Path(folder) / "gateway.yaml"
        path.write_text(json.dumps(config))
        with beside(["serve", "--config", str(path)], gateway, "/readyz", 600.0) as pid:
            yield f"http://127.0.0.1:{gateway}", Target("127.0.0.1", engine, False, ""), pid


def sent(trace: Trace, url: str, pid: int, engine: Target, **settings) -> tuple[Outcome, dict, Process, list[Sample]]:
    """A run with the gateway's process and the engines' page watched."""
    asked = LoadSettings(source="bench", url=url, model="emulated", **settings)
    process = Process(pid)
    with watched(engine, None, {}) as samples:
        outcome = drive(timed(trace, asked), asked)
    process.end()
    return outcome, summary(outcome, asked), process, samples


def streams(count: int, step_ms: float, seconds: float, policy: str) -> str:
    """So many streams at once, at this pace."""
    tokens = int(1e3 * seconds / step_ms)
    sizes = np.full(count, 200, np.int64), np.full(count, tokens, np.int64)
    with running(step_ms, -(-count // RANKS), policy) as (url, engine, pid):
        outcome, found, process, samples = sent(Trace(*sizes, name="bench"), url, pid, engine, closed=count)
    records = outcome.records
    share, memory = process.between(
        outcome.start_s + float(np.nanmax(records.first_s)),
        outcome.start_s + float(np.nanmin(records.last_s)),
    )
    first, last = samples[0].engine, samples[-1].engine
    late = (last["late"] - first["late"]) / max(1.0, last["steps"] - first["steps"])
    return "; ".join(
        (
            f"{count:,} streams at {step_ms:g} ms: {found['completed']:,} whole",
            f"gateway {100 * share:.0f} % of a core, {1e3 * share * step_ms / count:.1f} us a chunk, {memory:.0f} MB",
            f"TPOT median {found['median_tpot_ms']:.1f} ms, p99 {found['p99_tpot_ms']:.1f} ms",
            f"ITL p99 {found['p99_itl_ms']:.1f} ms",
            f"engines late for {100 * late:.1f} % of steps",
            f"client {100 * found['client_cpu_share']:.0f} % of a core",
        )
    )


def requests(rate: float, seconds: float, policy: str) -> str:
    """Answers of one token, so many a second, Poisson."""
    count = int(rate * seconds)
    trace = Trace(np.full(count, 20, np.int64), np.ones(count, np.int64), name="bench")
    with running(5.0, 64, policy) as (url, engine, pid):
        outcome, found, process, _ = sent(trace, url, pid, engine, rate=rate)
    share, memory = process.between(outcome.start_s + 0.5, outcome.start_s + outcome.duration_s)
    each_us = 1e6 * share / found["request_throughput"]
    return "; ".join(
        (
            f"{rate:,.0f} requests/s of one token: {found['completed']:,} of {count:,} whole",
            f"{found['request_throughput']:,.0f}/s",
            f"gateway {100 * share:.0f} % of a core, {each_us:.0f} us a request, {memory:.0f} MB",
            f"E2EL median {found['median_e2el_ms']:.1f} ms, p99 {found['p99_e2el_ms']:.1f} ms",
            f"client starts late by {found['p99_late_start_ms']:.1f} ms p99",
        )
    )


def idle(seconds: float, policy: str) -> str:
    """Nothing to do."""
    with running(40.0, 128, policy) as (_, _, pid):
        time.sleep(2.0)
        begun, used = time.monotonic(), cpu_s(pid)
        time.sleep(seconds)
        share = (cpu_s(pid) - used) / (time.monotonic() - begun)
        return f"idle, eight ranks scraped: {100 * share:.2f} % of a core, {resident_mb(pid):.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--step-ms", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--policy", default="best")
    parser.add_argument("--only", choices=["streams", "requests", "idle"])
    asked = parser.parse_args()
    used = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "httptools", "msgspec"))
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {used}, policy {asked.policy}")
    if asked.only in (None, "streams"):
        print(streams(asked.streams, asked.step_ms, asked.seconds, asked.policy), flush=True)
    if asked.only in (None, "requests"):
        print(requests(asked.rate, asked.seconds, asked.policy), flush=True)
    if asked.only in (None, "idle"):
        print(idle(2 * asked.seconds, asked.policy), flush=True)


if __name__ == "__main__":
    main()
