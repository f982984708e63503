"""Is our scheduling policy better than what engines do, and is no other better than it in both mean and tail?

For each workload and load: mean and p99 of end-to-end latency of `vllm` with its defaults and of `best`, the paired
difference in per cent with its 95 % interval, and every other policy whose mean and p99 are both below those of `best`
(with a star where both intervals leave out 0). A load is a share of what is served, first come first served, when all
requests wait from the start (`best:patience=0,paced=false`: chunks as large as the engine takes). *Memory* is the share
of the time of all iterations in which `vllm` leaves requests waiting though neither seats nor token budget are used up:
only KV memory keeps them out. It binds where that is more than half. Policies that need bounds of output lengths get
quantiles of a live predictor: what nobody has online is not shown. It cannot show what other engines' batch-time laws
would: two fits of one paper are used, in both of which the first 64 to 96 tokens of a batch take no time.

    python benchmarks/bench_scheduling.py [--seeds 3] [--loads 0.8 0.95 1.1] [--limit 2000] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np

from evenstep.experiments.engine_compare import built, traces_of
from evenstep.experiments.engine_settings import EngineSettings
from evenstep.sim.engine import simulate_engine

EVENSTEP = (sys.executable, "-c", "import sys; from evenstep.cli.main import main; sys.exit(main())")
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
}  # fmt: skip
OTHERS = (
    "vllm:watermark=0.01", "vllm:watermark=0.05", "sarathi", "orca", "vanilla-vllm", "work-conserving", "sjf", "srpt",
    "mlfq", "least-attained", "a-max", "a-min", "a-min:reading=repaired", "a-ell", "h-sf", "alpha-switch",
)  # fmt: skip
MEAN, TAIL = "e2e_mean_s", "e2e_p99_s"


def compared(name: str, load: float, seeds: int, limit: int, policies: tuple[str, ...]) -> list[dict] | str:
    """All policies on one workload as `evenstep compare --engine` tells it; its error line where it refuses."""
    trace, engine, law, bounds = WORKLOADS[name]
    asked = [word for policy in policies for word in ("--policy", policy)]
    command = [
        *EVENSTEP, "compare", trace, "--engine", engine, "--batch-time", law, "--bounds", bounds, "--load", str(load),
        "--seeds", str(seeds), "--limit", str(limit), "--format", "json", *asked,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)["policies"]


def memory_binds(name: str, load: float, seeds: int, limit: int) -> float:
    """Share of the time in which only KV memory keeps requests out under `vllm`, mean over replicates."""
    trace, engine, law, _ = WORKLOADS[name]
    settings = EngineSettings(
        source=trace, engine=engine, batch_time=law, load=load, seeds=seeds, limit=limit
    )
    server, shares = settings.server(), []
    budget, seats = server.token_budget or np.inf, server.batch_limit or np.inf
    for replicate in traces_of(settings, False):
        run = simulate_engine(replicate, built(TODAY), engine=server, batch_time=settings.law())
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loads", type=float, nargs="*", default=[0.8, 0.95, 1.1])
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS))
    args = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}\n")
    print(
        f"{'workload':13} {'load':>5} {'memory':>6} {'vllm s':>8} {'best s':>8}"
        f"  {'mean, % of vllm [95 %]':24} {'vllm s':>8} {'best s':>8}"
        f"  {'p99, % of vllm [95 %]':24} {'evicted':>7} {'vllm':>7}  better in both"
    )
    for name in args.only:
        for load in args.loads:
            found = compared(name, load, args.seeds, args.limit, (OURS, TODAY, *OTHERS))
            row(name, load, found, memory_binds(name, load, args.seeds, args.limit))


if __name__ == "__main__":
    main()
