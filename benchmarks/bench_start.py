"""How long a person waits: `evenstep --help`, and the first row of `compare`, with compiled kernels and on a fresh machine.

It cannot show a cold disk: Python and its packages have been read before. A fresh machine is an empty folder for compiled
kernels (`NUMBA_CACHE_DIR`). Wall-clock seconds of whole processes, from their start until the line stands in the pipe; the
baseline is a Python process that does nothing.

    python benchmarks/bench_start.py [--rounds 5] [--cold-rounds 2]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

from evenstep import compiled

EVENSTEP = (sys.executable, "-c", "import sys; from evenstep.cli.main import main; sys.exit(main())")
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = line.startswith(policy)
            if found:
                break
            told += line
        taken = time.perf_counter() - start
        process.stdout.read()
    if process.returncode or not found:
        raise SystemExit(
            f"{' '.join(command)} ended with {process.returncode} and no row of {policy}:\n{told}"
        )
    return taken, told


def row(what: str, seconds: list[float], target: str) -> None:
    low, middle, high = np.quantile(seconds, [0.0, 0.5, 1.0])
    print(f"{what:60} {middle:7.3f} [{low:.3f}, {high:.3f}]  {target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold-rounds", type=int, default=2)
    args = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {compiled.mode()}"
    )
    print(f"command: python {' '.join(sys.argv)}\n")
    print(f"{'seconds: median [least, most]':60}                           target")
    row("python that does nothing", [whole_s((sys.executable, "-c", "")) for _ in range(args.rounds)], "")
    row("evenstep --help", [whole_s((*EVENSTEP, "--help")) for _ in range(args.rounds)], "0.15")
    first_row_s(COMPARE, "jsq")  # so that what the next rows use is compiled
    warm = [first_row_s(COMPARE, "jsq")[0] for _ in range(args.rounds)]
    row("compare, first row, kernels compiled", warm, "2")
    cold: list[float] = []
    for _ in range(args.cold_rounds):
        with tempfile.TemporaryDirectory() as cache:
            seconds, told = first_row_s(COMPARE, "jsq", cache)
        cold.append(seconds)
        if "compil" not in told:
            raise SystemExit(f"the first comparison did not say that it compiles; it said: {told!r}")
    row("compare, first row, nothing compiled (and it says so)", cold, "45")


if __name__ == "__main__":
    main()
