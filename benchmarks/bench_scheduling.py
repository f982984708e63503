"""Is our scheduling policy better than what engines do, and is no other better than it in both mean and tail?

For each workload and load: mean and p99 of end-to-end latency of `vllm` with its defaults and of `best`, the paired
difference in per cent with its 95 % interval, and every other policy whose mean and p99 are both below those of `best`
(with a star where both intervals leave out 0). A load is a share of what is served, first come first served, when all
requests wait from the start (`best:patience=0,paced=false`: chunks as large as the engine takes). *Memory* is the share
of the time of all iterations in which `vllm` leaves requests waiting though neither seats nor token budget are used up:
only KV memory keeps them out. It binds where that is more than half. Policies that need bounds of output lengths get
quantiles of a live predictor: what nobody has online is not shown. It cannot show what other engines' batch-time laws
would: two fits of one paper are used, in both of which the first 64 to 96 tokens of a batch take no time.

``--part seats`` ranks the policies that pause requests, and the two above, on an engine of 16 seats with memory to spare:
where a seat is what a request holds as long as it holds memory (`resident-limit` as it is by default, vLLM's rule), and
where those that pause give their seats to others (`resident-limit=0`).

``--part laws`` sets ``best`` beside the best of all others, for each of mean, p99 and p99 of the time to the first token on
its own, under the four measured profiles and a law without a flat part. *Level* is at most 2 % above. No single policy is
the best one in all three. The options of ``best`` were chosen on these traces and laws; only the seeds are others.

    python benchmarks/bench_scheduling.py [--seeds 3] [--loads 0.8 0.95 1.1] [--limit 2000] [--only NAME ...]
    python benchmarks/bench_scheduling.py --part seats [--seeds 3] [--loads 0.7 0.95 1.1] [--limit 1500]
    python benchmarks/bench_scheduling.py --part laws [--seeds 3] [--loads 0.7 0.95 1.05] [--limit 800]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np

from evenstep import names
from evenstep.experiments.compare.engine_compare import traces_of
from evenstep.experiments.compare.engine_settings import EngineSettings
from evenstep.sim.engine.simulation import simulate_engine

EVENSTEP = (sys.executable, "-m", "evenstep")
OURS, TODAY = "best", "vllm"
#: Name: trace, engine, batch-time law, bounds.
WORKLOADS = {
    "conversation": ("sample:azure-conv", "kv-tokens=20000,token-budget=512", "token-budget", "survival"),
    "sharegpt": ("sample:sharegpt", "kv-tokens=16492,token-budget=512", "token-budget:fit=llama-70b-tp2", "survival"),
    "burstgpt": ("sample:burstgpt", "kv-tokens=16492,token-budget=512", "token-budget:fit=llama-70b-tp2", "survival"),
    "summaries": ("sample:arxiv-summarization", "kv-tokens=60000", "token-budget:fit=llama-70b-tp4", "survival"),
    "long prompts": ("sample:mooncake-conversation", "kv-tokens=200000", "token-budget:fit=llama-70b-tp4", "survival"),
    "code": ("sample:azure-code", "kv-tokens=60000", "token-budget:fit=llama-70b-tp4", "survival"),
    "translation": ("sample:translation", "kv-tokens=16492,token-budget=512", "token-budget:fit=llama-70b-tp2", "survival"),
}
OTHERS = (
    "vllm:watermark=0.01",
    "vllm:watermark=0.05",
    "sarathi",
    "orca",
    "vanilla-vllm",
    "work-conserving",
    "sjf",
    "srpt",
    "mlfq",
    "least-attained",
    "a-max",
    "a-min",
    "a-min:reading=repaired",
    "a-ell",
    "h-sf",
    "alpha-switch",
)
MEAN, TAIL = "e2e_mean_s", "e2e_p99_s"
#: Part "seats": trace, engine, batch-time law, bounds; who is ranked.
SEATS = ("sample:azure-conv", "kv-tokens=80000,token-budget=512,batch-limit=16", "token-budget", "survival")
PAUSING = ("best", "vllm", "mlfq", "least-attained", "srpt", "srpt:makes-room=false", "nested-wait")


#: Part "laws": batch-time law and KV tokens; traces; who is set beside ours; what is compared.
LAWS = {
    "8B, RTX 4090": ("profile:path=rtx4090-llama31-8b", 41_408),
    "8B, RTX PRO 6000": ("profile:path=rtxpro6000-llama31-8b", 450_000),
    "30B-A3B, 2 x PRO": ("profile:path=rtxpro6000-qwen3-30b-a3b-ep2", 450_000),
    "32B, 2 x PRO": ("profile:path=rtxpro6000-qwen3-32b-tp2", 450_000),
    "affine-kv": ("affine-kv:d0-s=0.01,d1-s=1e-6", 40_000),
}
TRACES = {"chat": ("sample:azure-conv", 0), "long prompts": ("sample:mooncake-conversation", 200_000)}
BESIDE = ("vllm", "vllm:watermark=0.01", "sarathi", "orca", "vanilla-vllm", "mlfq", "least-attained")
MEASURED = {"mean": "e2e_mean_s", "p99": "e2e_p99_s", "TTFT p99": "ttft_p99_s"}
LEVEL = 1.02


def compared(
    workload: tuple[str, str, str, str], load: float, seeds: int, limit: int, policies: tuple[str, ...]
) -> list[dict] | str:
    """All policies on one workload as `evenstep compare --engine` tells it; its error line where it refuses."""
    trace, engine, law, bounds = workload
    asked = [word for policy in policies for word in ("--policy", policy)]
    command = [
        *EVENSTEP,
        "compare",
        trace,
        "--engine",
        engine,
        "--batch-time",
        law,
        "--bounds",
        bounds,
        "--load",
        str(load),
        "--seeds",
        str(seeds),
        "--limit",
        str(limit),
        "--format",
        "json",
        *asked,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)["policies"]


def memory_binds(name: str, load: float, seeds: int, limit: int) -> float:
    """Share of the time in which only KV memory keeps requests out under `vllm`, mean over replicates."""
    trace, engine, law, _ = WORKLOADS[name]
    settings = EngineSettings(source=trace, engine=engine, batch_time=law, load=load, seeds=seeds, limit=limit)
    server, shares = settings.server(), []
    budget, seats = server.token_budget or np.inf, server.batch_limit or np.inf
    for replicate in traces_of(settings, False):
        run = simulate_engine(replicate, names.build("scheduling", TODAY), engine=server, batch_time=settings.law())
        table = run.iterations
        kept_out = (table.waiting > 0) & (table.tokens < budget) & (table.running < seats)
        shares.append(table.seconds[kept_out].sum() / table.seconds.sum())
    return float(np.mean(shares))


def against(other: dict, ours: dict, field: str) -> tuple[str, float, float]:
    """What ours has less than the other in per cent of it, as text, and the interval's ends of ours less the other."""
    found = other["versus_first"][field]
    low = found["low"] if found["low"] is not None else found["diff"]
    high = found["high"] if found["high"] is not None else found["diff"]
    base = other[field]
    return (
        f"{-100 * found['diff'] / base:+6.1f} [{-100 * high / base:+.1f}, {-100 * low / base:+.1f}]",
        -high,
        -low,
    )


def row(name: str, load: float, found: list[dict] | str, binds: float) -> None:
    if isinstance(found, str):
        print(f"{name:13} {load:5.2f}  {found}", flush=True)
        return
    ours, today, *others = found
    mean, tail = against(today, ours, MEAN)[0], against(today, ours, TAIL)[0]
    better: list[str] = []
    for other in (today, *others):
        if other[MEAN] < ours[MEAN] and other[TAIL] < ours[TAIL]:
            sure = against(other, ours, MEAN)[1] > 0 and against(other, ours, TAIL)[1] > 0
            better.append(other["policy"] + ("*" if sure else ""))
    print(
        f"{name:13} {load:5.2f} {binds:6.2f} {today[MEAN]:8.2f} {ours[MEAN]:8.2f}  {mean:24}"
        f" {today[TAIL]:8.2f} {ours[TAIL]:8.2f}  {tail:24}"
        f" {ours['evictions']:7.0f} {today['evictions']:7.0f}  {', '.join(better) or '-'}",
        flush=True,
    )


def seats(loads: list[float], seeds: int, limit: int) -> None:
    """Policies that pause, ranked by mean: each request that holds memory has a seat, then only each that runs."""
    trace, engine, law, bounds = SEATS
    for load in loads:
        for option, said in (("", "default"), (",resident-limit=0", "resident-limit=0")):
            found = compared((trace, engine + option, law, bounds), load, seeds, limit, PAUSING)
            if isinstance(found, str):
                print(f"{load:5.2f} {said:17} {found}")
                continue
            for place, one in enumerate(sorted(found, key=lambda one: one[MEAN]), 1):
                print(
                    f"{load:5.2f} {said:17} {place} {one['policy']:22} {one[MEAN]:8.2f} {one[TAIL]:8.2f}"
                    f" {one['ttft_p99_s']:8.2f} {one['makespan_s']:9.1f} {one['evictions']:8.0f}",
                    flush=True,
                )


def laws(loads: list[float], seeds: int, limit: int) -> None:
    """Ours beside the best of the others, quantity by quantity."""
    for trace, (source, least) in TRACES.items():
        for law, (batch_time, kv) in LAWS.items():
            for load in loads:
                workload = source, f"kv-tokens={max(kv, least)},block-tokens=16", batch_time, "trace"
                found = compared(workload, load, seeds, limit, (OURS, *BESIDE))
                if isinstance(found, str):
                    print(f"{trace:12} {law:17} {load:5.2f}  {found}", flush=True)
                    continue
                ours, *others = found
                cells: list[str] = []
                for field in MEASURED.values():
                    first = min(others, key=lambda one: one[field])
                    ratio = ours[field] / first[field]
                    mark = " " if ratio <= LEVEL else "!"
                    cells.append(f"{ours[field]:7.2f} {100 * ratio - 100:+6.1f}{mark} {first['policy']:19}")
                print(f"{trace:12} {law:17} {load:5.2f}  {'  '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("others", "seats", "laws"), default="others")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loads", type=float, nargs="*")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS))
    args = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}\n")
    if args.part == "seats":
        columns = f"{'mean s':>8} {'p99 s':>8} {'TTFT p99':>8} {'makespan':>9} {'evicted':>8}"
        print(f"{'load':>5} {'seats':17}   {'policy':22} {columns}")
        seats(args.loads or [0.7, 0.95, 1.1], args.seeds, args.limit or 1500)
        return
    if args.part == "laws":
        heads = "  ".join(f"{name + ' s':>7} {'% of':>6}  {'the best other':19}" for name in MEASURED)
        print(f"{'trace':12} {'law':17} {'load':>5}  {heads}")
        laws(args.loads or [0.7, 0.95, 1.05], args.seeds, args.limit or 800)
        return
    loads, limit = args.loads or [0.8, 0.95, 1.1], args.limit or 2000
    print(
        f"{'workload':13} {'load':>5} {'memory':>6} {'vllm s':>8} {'best s':>8}"
        f"  {'mean, % of vllm [95 %]':24} {'vllm s':>8} {'best s':>8}"
        f"  {'p99, % of vllm [95 %]':24} {'evicted':>7} {'vllm':>7}  better in both"
    )
    for name in args.only:
        for load in loads:
            found = compared(WORKLOADS[name], load, args.seeds, limit, (OURS, TODAY, *OTHERS))
            row(name, load, found, memory_binds(name, load, args.seeds, limit))


if __name__ == "__main__":
    main()
