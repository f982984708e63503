"""How fast the engine simulator is: requests a CPU second, beside the same engine in plain NumPy and beside DynoSim.

It cannot show another machine's ratio, nor a quiet machine's if this one is busy: rounds of all sides alternate and the
interval is over rounds. Ours is the whole call of `simulate_engine` with per-request and per-iteration records kept;
summary and digest are worked out when they are read. The plain side keeps the same records but no histogram of gaps between
tokens. DynoSim runs the same requests in its model of vLLM, with batch times of its own that cannot be given in tokens:
seats, budget, memory and lengths are equal, its iterations are not; its time is CPU time of the simulation alone, which
leaves out reading the trace. Vidur runs with our batch times, as its measured ones are not in its package, and with an error
mended that ends every run that evicts (`contenders/vidur_package.py`); its rules are also written out in
`contenders/plain_numpy_engine.py`, for those who do not install it. "Scaled" is our figure on a
machine where plain NumPy FCFS at (16, 72), the yardstick of bench_simulator.py, makes 18,000 steps a CPU second.

    python benchmarks/bench_engine.py [--rounds 5] [--quick] [--dynosim PYTHON] [--vidur PYTHON]

``--dynosim`` and ``--vidur`` name the interpreters of environments with ai-dynamo-runtime and with vidur.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from bench_simulator import YARDSTICK_STEPS_PER_S, burst, plain_step_s
from contenders import plain_numpy, plain_numpy_engine
from evenstep import Trace, compiled, names
from evenstep.cost.token_budget import TokenBudget
from evenstep.sim.engine.simulation import Engine, simulate_engine

HERE = Path(__file__).parent
#: The engine of every contender: 72 seats, chunks in a budget of 512 tokens, memory that binds.
SEATS, BUDGET, KV_TOKENS, BLOCK = 72, 512, 52_000, 16
ENGINE = Engine(token_budget=BUDGET, batch_limit=SEATS, kv_tokens=KV_TOKENS, block_tokens=BLOCK)
POLICIES = ("sarathi", "vllm", "best")
FLOOR = 180_000.0


def chat(requests: int) -> Trace:
    """Prompts lognormal(5.95, 0.8) in 4..4096 (mean 527), outputs gamma(1.5, 135) in 1..1500 (mean 203), 8 arrive a second.

    That is a third more than the engine can serve: all seats are taken, memory runs out, and the queue grows.
    """
    rng = np.random.default_rng(0)
    prompt = np.clip(np.round(rng.lognormal(5.95, 0.8, requests)), 4, 4096)
    output = np.clip(np.round(rng.gamma(1.5, 135.0, requests)), 1, 1500)
    arrival_s = np.cumsum(rng.exponential(1 / 8.0, requests))
    return Trace(prompt.astype(np.int64), output.astype(np.int64), arrival_s=arrival_s)


def ours(trace: Trace, text: str, engine: Engine = ENGINE, **options):
    """CPU seconds of a whole run, and the run."""
    policy = names.build("scheduling", names.parse(text))
    start = time.process_time()
    run = simulate_engine(trace, policy, engine=engine, **options)
    return time.process_time() - start, run


def plain(trace: Trace, form=plain_numpy_engine.sarathi):
    """CPU seconds of a run of the plain side, its iterations, and its table of requests."""
    start = time.process_time()
    iterations, _, requests, _ = plain_numpy_engine.simulate(
        trace.column("arrival_s"),
        trace.prompt_tokens,
        trace.output_tokens,
        form,
        budget=BUDGET,
        limit=SEATS,
        kv_tokens=KV_TOKENS,
        block=BLOCK,
    )
    return time.process_time() - start, iterations, requests


def scale() -> float:
    """This machine's speed now, as a share of the yardstick's."""
    step_s = plain_step_s(burst(20_000), plain_numpy.fcfs, 16, 72, 0, 1500)
    return 1 / step_s / YARDSTICK_STEPS_PER_S


def interval(values: list[float], digits: int = 1) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return f"{middle:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def by_size(rounds: int, sizes: tuple[int, ...]) -> None:
    print(
        f"{'policy':8} {'requests':>9} {'us a request':>12} {'a CPU s':>9}   {'scaled, median [least, most]':30} floor"
        f"  {'iterations':>10} {'evictions':>9} {'running':>7}"
    )
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    said: dict[tuple[str, int], str] = {}
    traces = {n: chat(n) for n in sizes}
    for text in POLICIES:
        ours(traces[sizes[0]], text)
    for _ in range(rounds):
        speed = scale()
        for text in POLICIES:
            for n, trace in traces.items():
                seconds, run = ours(trace, text)
                assert run.iterations is not None
                found.setdefault((text, n), []).append((seconds, n / seconds / speed))
                running = run.iterations.running.mean()
                said[text, n] = f"{run.totals.iterations:10,} {run.totals.evictions:9,} {running:7.1f}"
    for (text, n), rows in found.items():
        seconds, scaled = (list(column) for column in zip(*rows, strict=True))
        middle = float(np.median(seconds))
        print(
            f"{text:8} {n:9,} {middle / n * 1e6:12.2f} {n / middle:9,.0f}   {interval(scaled, 0):30} {FLOOR:7,.0f}"
            f"  {said[text, n]}",
            flush=True,
        )


def beside_plain(rounds: int, requests: int) -> None:
    trace, ratios = chat(requests), []
    for _ in range(rounds):
        theirs, iterations, _ = plain(trace)
        seconds, run = ours(trace, "sarathi")
        ratios.append(theirs / seconds)
        if run.totals.iterations != iterations:
            raise SystemExit(f"{iterations} iterations of the plain engine, {run.totals.iterations} of ours")
    print(f"\nplain NumPy, sarathi, {requests:,} requests, its time to ours: {interval(ratios)}")


def equal_iterations(requests: int) -> None:
    """Ours against the same rules written down independently."""
    trace = chat(requests)
    print(f"\niterations, {requests:,} requests, ours and the plain engine's")
    for text, form, what in (
        ("sarathi", plain_numpy_engine.sarathi, "Sarathi"),
        ("vllm:watermark=0.01", plain_numpy_engine.vidur, "Vidur's Sarathi"),
    ):
        _, run = ours(trace, text)
        _, iterations, rows = plain(trace, form)
        difference = run.totals.iterations / iterations - 1
        print(
            f"{text:20} {run.totals.iterations:9,}   {what:16} {iterations:9,}   difference {difference:+.4%}"
            f"   evictions {run.totals.evictions:,} and {int(rows[:, 6].sum()):,}"
        )


def peer_run(python: str, module: str, trace: Trace, *more: str) -> dict:
    """A run of another simulator in a process of its own."""
    columns = (trace.column("arrival_s"), trace.prompt_tokens, trace.output_tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        with path.open("w") as file:
            for row, (at, prompt, output) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
                one = {"timestamp": at * 1e3, "input_length": prompt, "output_length": output}
                file.write(json.dumps(one | {"hash_ids": [row]}) + "\n")
        numbers = map(str, (SEATS, BUDGET, KV_TOKENS // BLOCK, BLOCK))
        command = [python, str(HERE / "contenders" / module), str(path), *numbers, *more]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])


def beside_vidur(python: str, rounds: int, requests: int) -> None:
    trace, text = chat(requests), "vllm:watermark=0.01"
    print(f"\nVidur's Sarathi, {requests:,} requests, requests a CPU second, and ours ({text}) to it")
    for more in ((), ("metrics",)):
        theirs, ratios = [], []
        for _ in range(rounds):
            peer = peer_run(python, "vidur_package.py", trace, *more)
            seconds, run = ours(trace, text)
            theirs.append(requests / peer["simulation_s"])
            ratios.append(peer["simulation_s"] / seconds)
        print(
            f"{'with its metrics' if more else 'without metrics':16} {np.median(theirs):7,.0f}   {interval(ratios, 0)}"
            f"   iterations {peer['iterations']:,} and ours {run.totals.iterations:,}, evictions {peer['restarts']:,} and"
            f" {run.totals.evictions:,} (version {peer['version']})",
            flush=True,
        )


def beside_dynosim(python: str, rounds: int, sizes: tuple[int, ...]) -> None:
    print("\nDynoSim: requests a CPU second, and ours to it, median [least, most]")
    for n in sizes:
        trace, theirs, ratios = chat(n), [], {text: [] for text in POLICIES}
        for _ in range(rounds):
            peer = peer_run(python, "dynosim.py", trace)
            theirs.append(n / peer["simulation_s"])
            for text, found in ratios.items():
                found.append(peer["simulation_s"] / ours(trace, text)[0])
        said = "   ".join(f"{text} {interval(found)}" for text, found in ratios.items())
        print(
            f"{n:9,} requests  {np.median(theirs):9,.0f}   {said}   (version {peer['version']}, admitted again"
            f" {peer['admitted_again']:,})",
            flush=True,
        )


def interval_scheduling(requests: int) -> tuple[Trace, dict]:
    """Everybody at time zero in 16,492 tokens, lengths lognormal, bounds a bucket of a hundred tokens around the output."""
    rng = np.random.default_rng(0)
    prompt = np.clip(np.round(11 * rng.lognormal(0.0, 1.95, requests)), 1, 468).astype(np.int64)
    output = np.clip(np.round(45 * rng.lognormal(0.0, 1.18, requests)), 1, 883).astype(np.int64)
    low = (output - 1) // 100 * 100 + 1
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=16_492, overflow="restart", hold_produced=True)
    options = {
        "engine": engine,
        "bounds": (low, low + 99),
        "batch_time": TokenBudget(fit="llama-70b-tp2"),
    }
    return Trace(prompt, output), options


def two_limits(rounds: int, requests: int) -> None:
    """The two runs the project has a time limit for."""
    trace, options = interval_scheduling(requests)
    arrival_s = np.cumsum(np.random.default_rng(0).exponential(1 / 14.3, 12_500))
    steady = Trace(np.full(12_500, 129), np.full(12_500, 112), arrival_s=arrival_s)
    ours(trace.head(500), "a-min", **{**options, "bounds": tuple(b[:500] for b in options["bounds"])})
    many, stable = [], []
    for _ in range(rounds):
        seconds, run = ours(trace, "a-min", **options)
        many.append(seconds)
        seconds, other = ours(steady, "sarathi", Engine(token_budget=512), until_s=800.0)
        stable.append(seconds * 1e3)
    print(
        f"\na-min, {requests:,} requests at time zero, M = 16,492, CPU s (limit 10): {interval(many, 2)}"
        f"   {run.totals.iterations:,} iterations, {run.totals.evictions:,} evictions"
    )
    print(
        f"800 simulated seconds of sarathi at 14.3 a second, 129 and 112 tokens, CPU ms (limit 200): {interval(stable)}"
        f"   {other.totals.iterations:,} iterations"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, smaller runs")
    parser.add_argument("--dynosim", metavar="PYTHON", help="interpreter of an environment with DynoSim")
    parser.add_argument("--vidur", metavar="PYTHON", help="interpreter of an environment with Vidur")
    args = parser.parse_args()
    rounds = 2 if args.quick else args.rounds
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()},"
        f" NumPy {np.__version__}, {compiled.mode()}"
    )
    print(f"command: python {' '.join(sys.argv)}\n")
    by_size(rounds, (5_000, 20_000) if args.quick else (5_000, 20_000, 200_000))
    beside_plain(rounds, 5_000)
    equal_iterations(5_000)
    if args.dynosim:
        beside_dynosim(args.dynosim, rounds, (5_000,) if args.quick else (5_000, 20_000))
    if args.vidur:
        beside_vidur(args.vidur, rounds, 2_000)
    two_limits(rounds, 10_000 if args.quick else 100_000)


if __name__ == "__main__":
    main()
