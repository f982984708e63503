"""How fast the simulator is, as ratios to plain NumPy implementations of the same model in the same run.

It cannot show another machine's ratio, nor a quiet machine's if this one is busy: rounds of both sides alternate and the
interval is over rounds. Ours is the whole call of `simulate` with per-request and per-step records kept, so it includes
preparation and copying of records; what follows from them (a request's times from its steps' times, metrics, digest) is
worked out when it is read. The column "read" is the strict ratio when every column of both tables is read too. Ratios stand
twice: to a plain side that leaves both energies out of its records, the stricter one, and to one that works them out as
ours does. The plain side keeps the same records and stops after a few hundred steps of steady operation, because a step of
it takes as long as hundreds of ours. Both sides are CPU seconds a decode step; the yardstick is plain FCFS at (16, 72), and
"scaled" is our time on a machine where that yardstick makes 18,000 steps a CPU second.

    python benchmarks/bench_simulator.py [--rounds 5] [--quick] [--best]
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from contenders import plain_numpy
from evenstep import Cluster, Trace, compiled, names, read_trace, simulate
from evenstep.measure.records import columns

YARDSTICK_STEPS_PER_S = 18_000.0
# policy, its plain counterpart, G, B, horizon, plain steps a round, target ratio of the project
ROWS = (
    ("fcfs", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("fcfs", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("fcfs", plain_numpy.fcfs, 144, 10, 0, 1000, 100),
    ("fcfs", plain_numpy.fcfs, 256, 128, 0, 200, 70),
    ("jsq", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("least-load", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("round-robin", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("random", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("power-of-d", plain_numpy.fcfs, 16, 72, 0, 1500, 150),
    ("jsq", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("power-of-d", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("least-load", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("round-robin", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("random", plain_numpy.fcfs, 32, 72, 0, 1000, 150),
    ("br-0", plain_numpy.br_0, 16, 72, 0, 400, 60),
    ("bf-io", plain_numpy.bf_io, 16, 72, 0, 250, 15),
    ("bf-io:horizon=20,predictor=oracle", plain_numpy.bf_io, 16, 72, 20, 150, 15),
)


def burst(requests: int) -> Trace:
    """Prompts lognormal(6.1, 1.15) in 4..4096, outputs gamma(1.5, 180) in 1..2000."""
    rng = np.random.default_rng(0)
    prompt = np.clip(np.round(rng.lognormal(6.1, 1.15, requests)), 4, 4096)
    output = np.clip(np.round(rng.gamma(1.5, 180.0, requests)), 1, 2000)
    return Trace(prompt.astype(np.int64), output.astype(np.int64))


def built(text: str):
    spec = names.parse(text)
    predictor = spec.pop("predictor", None)
    return names.build("routing", spec), predictor and names.build("predict", {"name": predictor})


def ours(trace: Trace, text: str, workers: int, slots: int, door: str = "auto"):
    """CPU seconds of a whole run, and the run."""
    policy, predictor = built(text)
    start = time.process_time()
    run = simulate(trace, policy, cluster=Cluster(workers, slots), predictor=predictor, door=door)
    return time.process_time() - start, run


def read(run) -> float:
    """CPU seconds of reading every column of a run's tables."""
    start = time.process_time()
    for table in (run.requests, run.steps):
        _ = columns(table)
    return time.process_time() - start


def plain_step_s(trace: Trace, policy, workers: int, slots: int, horizon: int, steps: int, energies: bool = True) -> float:
    """CPU seconds of one step of the plain side."""
    start = time.process_time()
    done, *_ = plain_numpy.simulate(
        trace.prompt_tokens,
        trace.output_tokens,
        workers,
        slots,
        128,
        policy,
        horizon=horizon,
        limit=steps,
        energies=energies,
    )
    return (time.process_time() - start) / done


def interval(values: list[float]) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return f"{middle:8.1f} [{low:.1f}, {high:.1f}]"


def ratios(rounds: int, requests: int) -> None:
    trace = burst(requests)
    print(
        f"{'policy':33} {'G, B':>8} {'plain us':>8} {'ours ns':>8} {'scaled ns':>9}"
        f"   {'strict ratio, median [least, most]':34} {'read':>6}   {'with energies':26} target"
    )
    for text, plain, G, B, horizon, steps, target in ROWS:
        ours(trace.head(3000), text, G, B)
        found = []
        for _ in range(rounds):
            yard = plain_step_s(trace, plain_numpy.fcfs, 16, 72, 0, 1500)
            baseline = plain_step_s(trace, plain, G, B, horizon, steps)
            strict = plain_step_s(trace, plain, G, B, horizon, steps, energies=False)
            seconds, run = ours(trace, text, G, B)
            step, whole = seconds / run.totals.steps, (seconds + read(run)) / run.totals.steps
            scaled = step / (yard * YARDSTICK_STEPS_PER_S)
            found.append((strict * 1e6, step * 1e9, scaled * 1e9, strict / step, strict / whole, baseline / step))
        plain_us, our_ns, scaled_ns, strict, after, priced = zip(*found, strict=True)
        print(
            f"{text:33} {f'{G}, {B}':>8} {np.median(plain_us):8.1f} {np.median(our_ns):8.0f} {np.median(scaled_ns):9.0f}"
            f"   {interval(strict):34} {np.median(after):6.0f}   {interval(priced):26} {target:5d}",
            flush=True,
        )


class PlainFirstCome:
    """A policy in plain Python whose own work is next to nothing: what is left is the host's share of a decision."""

    def __init__(self) -> None:
        from evenstep import RoutingDecision

        self.decide, self.seconds, self.count = RoutingDecision, 0.0, 0

    def route(self, view):
        start = time.perf_counter()
        worker = np.full(view.waiting_id.size, -1)
        open_slots = np.flatnonzero(view.free_slots)
        slots = np.repeat(open_slots, view.free_slots[open_slots])[: worker.size]
        worker[: slots.size] = slots
        answer = self.decide(worker)
        self.seconds += time.perf_counter() - start
        self.count += 1
        return answer


def plain_door(rounds: int) -> None:
    trace = burst(60_000)  # long enough for what a run costs once not to count
    simulate(trace.head(2000), PlainFirstCome(), cluster=Cluster())
    shares = []
    for _ in range(rounds):
        yard = plain_step_s(trace, plain_numpy.fcfs, 16, 72, 0, 1500)
        policy = PlainFirstCome()
        start = time.perf_counter()
        run = simulate(trace, policy, cluster=Cluster())
        whole = time.perf_counter() - start
        share = (whole - policy.seconds) / run.totals.decisions
        shares.append(share / (yard * YARDSTICK_STEPS_PER_S) * 1e6)
    print(f"\nplain door, our share of a decision, scaled us (target 3): {interval(shares)}")


def linear_time(rounds: int, sizes: tuple[int, ...]) -> None:
    print("\nfcfs at (16, 72) by number of requests, records on: ns a step; with metrics and digest")
    for n in sizes:
        trace = burst(n)
        steps, whole = [], []
        for _ in range(rounds):
            seconds, run = ours(trace, "fcfs", 16, 72)
            start = time.process_time()
            _ = run.summary, run.digest
            steps.append(seconds / run.totals.steps * 1e9)
            whole.append((seconds + time.process_time() - start) / run.totals.steps * 1e9)
        print(f"{n:9,d} requests  {np.median(steps):8.0f}  {np.median(whole):8.0f}")


def best_step(rounds: int, requests: int) -> None:
    """CPU of a step with `best`, predictor included, over that with `bf-io:horizon=20`; both sides take turns."""
    sample = read_trace("sample:azure-conv")
    drawn = np.random.default_rng(0).integers(0, len(sample), requests)
    trace = Trace(sample.prompt_tokens[drawn], sample.output_tokens[drawn], name="azure-conv, drawn anew")
    print(f"\n{trace.name}, (16, 72), {requests:,} requests, records off: us a step, best and bf-io:horizon=20; ratio")
    for predictor in ("memorised", "survival", "oracle"):
        sides = [policy + predictor for policy in ("best:predictor=", "bf-io:horizon=20,predictor=")]
        found = [[step_us(trace, side) for side in sides] for _ in range(rounds + 1)][1:]  # the first one loads kernels
        ours_us, other_us = np.median(found, axis=0)
        least, middle, most = np.quantile([one / other for one, other in found], [0.0, 0.5, 1.0])
        print(f"{predictor:10} {ours_us:8.1f} {other_us:8.1f}   {middle:.2f} [{least:.2f}, {most:.2f}]", flush=True)


def step_us(trace: Trace, text: str) -> float:
    policy, predictor = built(text)
    start = time.process_time()
    run = simulate(trace, policy, predictor=predictor, records=False)
    return (time.process_time() - start) / run.totals.steps * 1e6


def compile_beside() -> None:
    """Fill the cache of compiled kernels from another process, since compiling takes memory of its own."""
    code = "import bench_simulator as b; b.ours(b.burst(3000), 'fcfs', 16, 72)[1].requests"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def memory(requests: int) -> None:
    """Largest size of the process so far: it only ever grows, so the leanest comes first."""
    trace = burst(requests)
    policy = names.build("routing", {"name": "fcfs"})
    simulate(trace, policy, records=False)
    print(f"{requests:,} requests, the whole process: records off {peak_mb():.0f} MB", end="", flush=True)
    run = simulate(trace, policy)
    print(f", records on {peak_mb():.0f} MB", end="", flush=True)
    _ = run.summary, run.digest
    print(f", and summary and digest {peak_mb():.0f} MB", end="", flush=True)
    _ = run.requests
    print(f", and every column read {peak_mb():.0f} MB", flush=True)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, smaller runs")
    parser.add_argument("--best", action="store_true", help="only what a step with best costs")
    args = parser.parse_args()
    rounds = 2 if args.quick else args.rounds
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()},"
        f" NumPy {np.__version__}, {compiled.mode()}"
    )
    print(f"command: python {' '.join(sys.argv)}\n")
    if args.best:
        return best_step(rounds, 20_000)
    compile_beside()
    memory(100_000 if args.quick else 1_000_000)  # first: the process's largest size is only ever grown
    print()
    ratios(rounds, 40_000 if args.quick else 200_000)
    plain_door(rounds)
    best_step(rounds, 5_000 if args.quick else 20_000)
    linear_time(rounds, (5_000, 20_000) if args.quick else (5_000, 20_000, 200_000, 1_000_000, 5_000_000))


if __name__ == "__main__":
    main()
