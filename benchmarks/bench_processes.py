"""How much faster `evenstep compare` is in two processes than in one, start and report included.

Wall-clock seconds of whole commands, one and two processes in turn; the ratio is the median over the rounds. It needs two
cores of their own: two threads of one core share it, and a busy machine shows nothing. Both commands print the same digests.

    python benchmarks/bench_processes.py [--rounds 3] [--seeds 32] [--processes 2]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

BURST = str(Path(__file__).parent.parent / "examples" / "workloads" / "burst.yaml")
EVENSTEP = (sys.executable, "-m", "evenstep")
POLICIES = ("best", "bf-io", "br-0", "jsq")


def compared(processes: int, seeds: int) -> tuple[float, list[str]]:
    """Seconds of the command, and the digests that it prints."""
    asked = [word for policy in POLICIES for word in ("--policy", policy)]
    options = ["--seeds", str(seeds), "--processes", str(processes)]
    start = time.perf_counter()
    done = subprocess.run([*EVENSTEP, "compare", BURST, *options, *asked], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, [line for line in done.stdout.splitlines() if line.startswith("digest")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}\n")
    compared(1, 1)  # kernels are compiled, files have been read
    ratios: list[float] = []
    for _ in range(args.rounds):
        (one_s, digests), (more_s, same) = (compared(count, args.seeds) for count in (1, args.processes))
        if digests != same:
            raise SystemExit(f"the digests differ: {digests} in one process, {same} in {args.processes}")
        ratios.append(one_s / more_s)
        print(f"1 process {one_s:.2f} s, {args.processes} processes {more_s:.2f} s: {ratios[-1]:.2f} times", flush=True)
    print(f"\nmedian {median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}] times as fast; asked 1.8 with two")


if __name__ == "__main__":
    main()
