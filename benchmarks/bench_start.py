"""How long a person waits for `evenstep --help`, the first row of `compare` and the first answer of `serve`.

It cannot show a cold disk: Python and its packages have been read before. A new machine is an empty folder for compiled
kernels (`NUMBA_CACHE_DIR`). Wall-clock seconds of whole processes, from their start until the line stands in the pipe or
the answer is read; the baseline is a Python process that does nothing. The engine of `serve` is the emulator. Give it one
core (`taskset -c 0`) to see what a small machine does.

    python benchmarks/bench_start.py [--rounds 5] [--cold-rounds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from evenstep import compiled

EVENSTEP = (sys.executable, "-m", "evenstep")
COMPARE = (*EVENSTEP, "compare", "sample:azure-conv", "--policy", "jsq", "--policy", "br-0")


def whole_s(command: tuple[str, ...]) -> float:
    """Seconds until a command has ended."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def first_row_s(command: tuple[str, ...], policy: str, cache: str | None = None) -> tuple[float, str]:
    """Seconds until the row of the first policy is there, and what was said before it."""
    env = {**os.environ, "NUMBA_CACHE_DIR": cache} if cache is not None else None
    told, found = "", False
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = line.startswith(policy)
            if found:
                break
            told += line
        taken = time.perf_counter() - start
        process.stdout.read()
    if process.returncode or not found:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode} and no row of {policy}:\n{told}")
    return taken, told


@contextmanager
def started(*words: str, env: dict[str, str] | None = None) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A command that listens, and the address that it says."""
    with subprocess.Popen(
        (*EVENSTEP, *words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    ) as process:
        assert process.stdout is not None
        try:
            yield process, next(line.split()[0] for line in process.stdout if line.startswith("http"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()


def first_answer_s(engine: str, cache: str, is_cold: bool) -> tuple[float, float]:
    """Seconds until `serve` has answered a request, and of a cold start until it said that compiled code decides."""
    env = {**os.environ, "NUMBA_CACHE_DIR": cache}
    body = json.dumps({"model": "emulated", "prompt": "How long?", "max_tokens": 1}).encode()
    start = time.perf_counter()
    with started("serve", "--port", "0", "--admin-port", "0", "--worker", engine, env=env) as (process, url):
        request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
        while True:
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:
                    answer.read()
                break
            except urllib.error.HTTPError:
                time.sleep(0.02)
        taken, compiled_s = time.perf_counter() - start, float("nan")
        if is_cold:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("kernels are compiled"):
                    compiled_s = time.perf_counter() - start
                    break
    return taken, compiled_s


def row(what: str, seconds: list[float], target: str) -> None:
    """Print the row of a measured time; without a round (``--cold-rounds 0``) it says so."""
    if not seconds:
        print(f"{what:60} not measured", flush=True)
        return
    low, middle, high = np.quantile(seconds, [0.0, 0.5, 1.0])
    print(f"{what:60} {middle:7.3f} [{low:.3f}, {high:.3f}]  {target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold-rounds", type=int, default=2)
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {compiled.mode()}")
    print(f"command: python {' '.join(sys.argv)}\n")
    print(f"{'seconds: median [least, most]':60}                           target")
    row("python that does nothing", [whole_s((sys.executable, "-c", "")) for _ in range(args.rounds)], "")
    row("evenstep --help", [whole_s((*EVENSTEP, "--help")) for _ in range(args.rounds)], "0.15")
    first_row_s(COMPARE, "jsq")  # so that what the next rows use is compiled
    warm = [first_row_s(COMPARE, "jsq")[0] for _ in range(args.rounds)]
    row("compare, first row, kernels compiled", warm, "2")
    cold: list[float] = []
    for _ in range(args.cold_rounds):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            seconds, told = first_row_s(COMPARE, "jsq", cache)
        cold.append(seconds)
        if "compil" not in told:
            raise SystemExit(f"the first comparison did not say that it compiles; it said: {told!r}")
    row("compare, first row, nothing compiled (and it says so)", cold, "10")
    with started("emulate", "--port", "0") as (_, engine):
        answers: list[tuple[float, float]] = []
        warm = []
        for _ in range(args.cold_rounds):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
                answers.append(first_answer_s(engine, cache, is_cold=True))
                warm = [first_answer_s(engine, cache, is_cold=False)[0] for _ in range(args.rounds)]
        row("serve, first answer, kernels compiled", warm, "5")
        row("serve, first answer, nothing compiled", [answered for answered, _ in answers], "5")
        row("serve, compiled code decides", [changed for _, changed in answers], "")


if __name__ == "__main__":
    main()
