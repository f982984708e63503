"""CPU of whole simulator runs, and of live rounds, in this tree, as a ratio to an earlier commit, interleaved.

Each tree runs in a process of its own, with the interpreter and libraries of this one, and its own kernels. The order of the
two alternates from round to round; the first run of each is not counted. Digests that differ are told: a policy that decides
otherwise is not comparable. The earlier tree is checked out under ``build/before``, and compiles its kernels first. Of
live rounds the median of 200 calls counts, as ``whole`` of `bench_dispatch`; what they decide is not compared.

    python benchmarks/bench_before.py [--commit 568283c] [--rounds 9] [--only "sarathi" "jsq 16" ...]

It cannot show what other machines do, and nothing of the gateway.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
FLEETS = (
    "fcfs 16",
    "jsq 16",
    "round-robin 16",
    "least-load 16",
    "least-load 32",
    "random 32",
    "power-of-d 16",
    "br-0 16",
    "bf-io 16",
)
ENGINES = ("sarathi", "vllm", "srpt", "best")
LIVE = ("br-0 8 live", "br-0 64 live", "br-h:horizon=40 8 live", "br-h:horizon=40 64 live")
#: What each process runs: a line with a policy, and the workers of its fleet, in; CPU seconds and the digest out.
WORKER = """
import argparse, statistics, sys, time
sys.path.insert(0, "benchmarks")
import bench_dispatch, bench_engine, bench_simulator
bench_dispatch.clock, usual = time.thread_time, bench_dispatch.Settings()
shape = argparse.Namespace(
    slots=72, waiting=512, groups="one", blocks=0, pool_window=usual.pool_window, round_slots=usual.round_slots
)
def live(policy, workers):
    bench_dispatch.warm(policy)
    fleet = bench_dispatch.Fleet(policy, workers, shape)
    while len(fleet.streams) < 0.9 * workers * 72:
        fleet.step()
    fleet.taken["whole"].clear()
    while len(fleet.taken["whole"]) < 200:
        fleet.step()
    return statistics.median(fleet.taken["whole"])
fleet, chat = bench_simulator.burst(600_000), bench_engine.chat(100_000)
for line in sys.stdin:
    policy, *workers = line.split()
    if len(workers) > 1:
        print(live(policy, int(workers[0])), "-", flush=True)
        continue
    seconds, run = bench_simulator.ours(fleet, policy, int(workers[0]), 72) if workers else bench_engine.ours(chat, policy)
    print(seconds, run.digest, flush=True)
"""


def checked_out(commit: str) -> Path:
    """The tree of a commit, under ``build/before``."""
    name = subprocess.run(["git", "rev-parse", "--short=12", commit], cwd=ROOT, check=True, capture_output=True, text=True)
    folder = ROOT / "build" / "before" / name.stdout.strip()
    if not folder.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(folder), commit], cwd=ROOT, check=True)
    return folder


def started(tree: Path) -> subprocess.Popen[str]:
    """A process that runs what it is told in a tree."""
    env = os.environ | {"PYTHONPATH": str(tree / "src")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", WORKER], cwd=tree, env=env, text=True, **pipes)


def run(process: subprocess.Popen[str], what: str) -> tuple[float, str]:
    """CPU seconds and digest of one run."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    seconds, digest = process.stdout.readline().split()
    return float(seconds), digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD~1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[*FLEETS, *ENGINES, *LIVE], metavar="POLICY")
    args = parser.parse_args()
    before, now = started(checked_out(args.commit)), started(ROOT)
    print(f"{' '.join(sys.argv)}; load {os.getloadavg()[0]:.1f}; ratio of CPU to {args.commit}: median [least, most]")
    for what in args.only:
        run(before, what), run(now, what)
        ratios: list[float] = []
        digests: set[str] = set()
        for number in range(args.rounds):
            order = (before, now) if number % 2 else (now, before)
            found = {process: run(process, what) for process in order}
            ratios.append(found[now][0] / found[before][0])
            digests |= {digest for _, digest in found.values()}
        told = "" if len(digests) == 1 else "  (decides otherwise)"
        print(f"{what:<24} {median(ratios):.3f} [{min(ratios):.2f}, {max(ratios):.2f}]{told}", flush=True)


if __name__ == "__main__":
    main()
