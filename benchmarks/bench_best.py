"""Is our policy at least level with the best of the papers' and the plain ones, where it is asked to be?

"Level" is said of a pair on the same replicates: the 95 % interval of the difference in imbalance (envelope) reaches below
+2 % of the other's. It cannot show more than its seeds do: two policies a percent apart stay level. All predictors are
live ones, the same for every policy that looks ahead.

The papers' policies come as they are (no bound on age: what fits badly waits to the end of the run) and with one; ours has
one always. ``--same-age`` compares the traces under one rule instead: ours without its bound beside theirs without, and
ours with it beside theirs with the same one, 18 mean waits.

    python benchmarks/bench_best.py [--seeds 3] [--part loads sizes speeds memory known develop drawn held-out]
                                    [--traces FILE ... [--limit 4000]] [--same-age]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np

from best_workloads import DEVELOP, DRAWN_TOO, HELD_OUT, Workload
from evenstep import HOLD, Cluster, RoutingDecision, RoutingView, Trace, read_trace, simulate
from evenstep.experiments.contenders import contender
from evenstep.workload.replicate import scaled_to_rate

EVENSTEP = (sys.executable, "-m", "evenstep")
BURST = str(Path(__file__).parent.parent / "examples" / "workloads" / "burst.yaml")
OURS = "best:predictor=survival"
PAPERS = (
    "bf-io",
    "bf-io:age_limit=0",
    "bf-io:horizon=20,discount=0.9,predictor=survival",
    "bf-io:horizon=20,discount=0.9,age_limit=0,predictor=survival",
    "br-0",
    "br-0:age_limit=0",
    "br-h:predictor=survival",
    "br-h:age_limit=0,predictor=survival",
    "max-min",
)
#: The papers' policies under a rule of age; max-min has one in any case.
AGED = ("bf-io", "bf-io:horizon=20,discount=0.9,predictor=survival", "br-0", "br-h:predictor=survival")
FIELD = "imbalance_envelope_tokens"


def aged(policy: str, limit: int) -> str:
    """A policy with this bound on age, in mean waits; 0 = none."""
    return f"{policy}{',' if ':' in policy else ':'}age_limit={limit}"


def compared(source: str, seeds: int, options: list[str], others: tuple[str, ...], ours: str = OURS) -> list[dict] | str:
    """Ours and the others on one workload, as `evenstep compare` tells it; its error line where it refuses."""
    asked = [word for policy in (ours, *others) for word in ("--policy", policy)]
    command = [*EVENSTEP, "compare", source, "--seeds", str(seeds), "--format", "json", *options, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)["policies"]


def row(name: str, found: list[dict] | str) -> None:
    """Ours beside the best of the others: idle share, imbalance relative to it, whether level, waits."""
    if isinstance(found, str):
        print(f"{name:34} {found}", flush=True)
        return
    ours, others = found[0], found[1:]
    best = min(others, key=lambda one: one[FIELD])
    more = best["versus_first"][FIELD]  # what the other has more than ours
    share = -more["diff"] / best[FIELD] if best[FIELD] else 0.0
    text = f"{name:34} {100 * ours['idle_share']:6.2f} {100 * best['idle_share']:6.2f}  {100 * share:+7.1f} %"
    if more["high"] is not None and best[FIELD]:
        low, high = -more["high"] / best[FIELD], -more["low"] / best[FIELD]
        text += f" [{100 * low:+.1f}, {100 * high:+.1f}]  {'level or better' if low < 0.02 else 'WORSE':15}"
    oldest = ours["oldest_wait_s"] / ours["mean_wait_s"] if ours["mean_wait_s"] else 0.0
    print(f"{text} {oldest:6.1f}  {best['policy']}", flush=True)


def loads(seeds: int) -> None:
    for load in (0.3, 0.6, 0.85, 0.95):
        options = ["--load", str(load), "--limit", "6000"]
        row(
            f"burst, Poisson at {load}",
            compared(BURST, seeds, options, ("least-load", "br-0", "br-0:age_limit=0")),
        )


def sizes(seeds: int) -> None:
    for workers in (16, 32, 64, 256):
        with tempfile.TemporaryDirectory() as folder:  # the usual number of requests would not fill 256 workers
            workload = Path(folder) / "burst.yaml"
            text = Path(BURST).read_text(encoding="utf-8")
            workload.write_text(re.sub(r"requests: \d+", f"requests: {max(12_000, 350 * workers)}", text), encoding="utf-8")
            options = ["--workers", str(workers), "--pool", str(8 * workers)]
            row(f"burst, {workers} workers", compared(str(workload), min(seeds, 3), options, PAPERS))


def speeds(seeds: int) -> None:
    options = ["--worker-speeds", "uniform:1:2"]
    found = compared(BURST, seeds, options, ("bf-io", "bf-io:tie_weight=1", "br-0", "least-load"))
    if isinstance(found, str):
        raise SystemExit(found)
    rates = {one["policy"]: one["tokens_per_s"] for one in found}
    best = max(rate for name, rate in rates.items() if name != OURS)
    print("\nworker speeds from 1 to 2, tokens/s:", ", ".join(f"{n} {r:,.0f}" for n, r in rates.items()))
    print(f"ours against the best of those that balance tokens: {100 * (rates[OURS] / best - 1):+.1f} % (asked +5 %)")


def simulated(trace: Trace, policy: str, cluster: Cluster) -> dict[str, float]:
    """Metrics of one run."""
    built, predictor = contender(policy).build()
    return simulate(trace, built, cluster=cluster, predictor=predictor, records=False).summary


#: Replicates that `judged` averages: the rows as they are, then in shuffled orders.
REPLICATES = 8


def replicates(whole: Trace) -> list[Trace]:
    """The trace, and its rows in orders drawn with the key (7, replicate)."""
    orders = [np.random.default_rng([7, number]).permutation(len(whole)) for number in range(1, REPLICATES)]
    return [whole, *(Trace(whole.prompt_tokens[o], whole.output_tokens[o], name=whole.name) for o in orders)]


def memory_cell(traces: list[Trace], cluster: Cluster) -> list[dict[str, float]]:
    """Means of `best`, least load and bf-io over traces, for one worker memory and kind of arrivals; printed as a row."""
    runs = [[simulated(trace, policy, cluster) for policy in ("best", "least-load", "bf-io")] for trace in traces]
    shown = ("makespan_s", "restarts", "oldest_wait_s")
    found = [{name: mean(run[k][name] for run in runs) for name in shown} for k in range(3)]
    better = min(one["makespan_s"] for one in found[1:])
    more = 100 * (found[0]["makespan_s"] / better - 1)
    restarts = " / ".join(f"{one['restarts']:.0f}" for one in found)
    oldest = " / ".join(f"{one['oldest_wait_s']:.0f}" for one in found)
    print(f"{cluster.workers:3} {cluster.arrivals:9} {more:+6.1f} %   {restarts:24} {oldest}", flush=True)
    return found


def memory(seeds: int, limit: int) -> None:
    """What the reserve costs: makespan and restarts beside least load and bf-io; a restart costs no time here.

    The first rows of a sample as they are, and in shuffled orders. In a few hundred the last long answer decides a makespan.
    """
    more, restarts = list[float](), list[list[float]]()
    for sample in ("mooncake-conversation", "azure-conv"):
        whole = read_trace(f"sample:{sample}").head(limit)
        tokens = whole.prompt_tokens + whole.output_tokens
        for held in (3, 6, 12, 24, 72):
            kv = float(held * tokens.mean())
            fits = Trace(whole.prompt_tokens[tokens <= kv], whole.output_tokens[tokens <= kv], name=sample)
            orders = replicates(fits)[:seeds]
            print(
                f"\n{sample}, KV memory for {held} mean requests ({kv:,.0f} tokens a worker), {len(fits)} requests that fit"
                "\n  G arrivals  makespan   restarts, best / least-load / bf-io   oldest wait, s"
            )
            for workers in (1, 2, 4, 16):
                cluster = Cluster(workers=workers, pool=max(128, 8 * workers), kv_tokens=kv)
                full = memory_cell(orders, cluster)
                rate = 0.9 * len(fits) / full[1]["makespan_s"]
                timed = [scaled_to_rate(trace, rate) for trace in orders]
                for found in (full, memory_cell(timed, replace(cluster, arrivals="timed"))):
                    more.append(found[0]["makespan_s"] / min(one["makespan_s"] for one in found[1:]) - 1)
                    restarts.append([one["restarts"] for one in found])
    held, few = sum(one <= 0.05 for one in more), sum(ours <= 0.1 * theirs for ours, theirs, _ in restarts)
    fewest = sum(ours <= 0.1 * min(theirs) for ours, *theirs in restarts)
    print(f"\n{held} of {len(more)} cells at most 5 % behind the better one in makespan; most {100 * max(more):+.1f} %")
    print(f"restarts {' / '.join(f'{sum(one):,.0f}' for one in zip(*restarts, strict=True))}", end="; ")
    print(f"ours at most a tenth of least load's in {few} cells, of both in {fewest}")


@dataclass(frozen=True, slots=True, eq=False)
class KnowsLengths:
    """Admits a request only if the worker's load, as it will be at every step to come, stays below a level.

    Requests go in order of arrival, each to the worker that it fills most. Every output length is known.

    Args:
        outputs: int64[requests], output tokens by request id.
        horizon: steps ahead: the longest output, plus one.
        overfill: the level is the worker's KV memory times one plus this.
    """

    outputs: np.ndarray
    horizon: int
    overfill: float

    def route(self, view: RoutingView) -> RoutingDecision:
        worker, ahead, free = np.full(len(view.waiting_id), HOLD), view.projections.copy(), view.free_slots.copy()
        level, room, steps = (1 + self.overfill) * (view.kv_free + view.load), view.kv_free.copy(), np.arange(ahead.shape[1])
        for i, size in enumerate(view.waiting_load):
            able = np.flatnonzero((free > 0) & (room >= size))
            if not able.size:
                continue
            left = int(self.outputs[view.waiting_id[i]])
            peaks = (ahead[able, :left] + size + steps[:left]).max(axis=1)
            peaks[peaks > level[able]] = -1
            g = int(able[np.argmax(peaks)])
            if peaks.max() >= 0:
                worker[i], free[g], room[g] = g, free[g] - 1, room[g] - size
                ahead[g, :left] += size + steps[:left]
        return RoutingDecision(worker)


def known(seeds: int) -> None:
    """What fewer restarts cost chats with memory for 3: `best` at other prices, and a rule that knows every length."""
    del seeds
    whole = read_trace("sample:azure-conv")
    tokens = whole.prompt_tokens + whole.output_tokens
    kv = float(3 * tokens.mean())
    fits = Trace(whole.prompt_tokens[tokens <= kv], whole.output_tokens[tokens <= kv], name=whole.name)
    oracle, horizon = contender("bf-io:horizon=20,predictor=oracle").build()[1], int(fits.output_tokens.max()) + 1
    for workers in (1, 4):
        cluster = Cluster(workers=workers, pool=128, kv_tokens=kv)
        names = ("least-load", "bf-io", *(f"best:recompute={price}" for price in (0.038, 0.08, 0.2)))
        found = {name: simulated(fits, name, cluster) for name in names}
        better = min(found[name]["makespan_s"] for name in names[:2])
        fewest = min(found[name]["restarts"] for name in names[:2])
        for overfill in (0.0, 0.02, 0.05):
            rule = KnowsLengths(fits.output_tokens, horizon, overfill)
            summary = simulate(fits, rule, cluster=cluster, predictor=oracle, records=False).summary
            found[f"knows every length, {100 * overfill:.0f} % over"] = summary
        print(f"\n{len(fits)} chats, {workers} workers with KV memory for 3; asked: +5.0 %, {0.1 * fewest:.0f} restarts")
        for name, one in found.items():
            print(
                f"{name:34} makespan {100 * (one['makespan_s'] / better - 1):+5.1f} %  restarts {one['restarts']:6.0f}",
                flush=True,
            )


def judged(workloads: tuple[Workload, ...]) -> None:
    """Mean idle share of `best` and of the others under the same bound on age, workload by workload."""
    others = (
        "bf-io",
        "bf-io:tie_weight=1",
        "bf-io:horizon=20,discount=0.9,predictor=survival",
        "br-0",
        "least-load",
    )
    level, logs = 0, list[float]()
    for limit in (18, 0):
        print(f"\nbound on age: {limit or 'none'} mean waits\nworkload                       best %  other %  other")
        for workload in workloads:
            traces, cluster = replicates(workload.trace()), workload.cluster()
            found = dict.fromkeys((OURS, *others), 0.0)
            for one in found:
                policy = one if one == "least-load" else aged(one, limit)
                found[one] = sum(simulated(trace, policy, cluster)["idle_share"] for trace in traces) / REPLICATES
            ours = found.pop(OURS)
            name = min(found, key=found.__getitem__)
            is_level = ours <= 1.02 * found[name]
            level += is_level
            logs.append(math.log(ours / found[name]))
            print(
                f"{workload.name:30} {100 * ours:6.2f}  {100 * found[name]:6.2f}  {name}{'' if is_level else '  BEHIND'}",
                flush=True,
            )
    print(f"\n{level} of {2 * len(workloads)} level (2 %) or ahead")
    print(f"geometric mean of best's idle share over the best other's: {math.exp(sum(logs) / len(logs)):.3f}")


def develop(seeds: int) -> None:
    del seeds
    judged(DEVELOP)


def drawn_too(seeds: int) -> None:
    del seeds
    judged(DRAWN_TOO)


def held_out(seeds: int) -> None:
    del seeds
    judged(HELD_OUT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parts = {"loads": loads, "sizes": sizes, "speeds": speeds}
    sets = {"known": known, "develop": develop, "drawn": drawn_too, "held-out": held_out}
    parser.add_argument("--part", nargs="*", choices=[*parts, "memory", *sets], default=[*parts, "memory"])
    parser.add_argument("--traces", nargs="*", default=[], help="recorded traces, each run saturated")
    parser.add_argument("--same-age", action="store_true", help="compare traces under one rule of age")
    parser.add_argument(
        "--limit", type=int, default=4000, help="rows of each trace, and of each sample of memory (default 4000)"
    )
    args = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}\n")
    print(
        f"{'workload':34} {'idle %':>6} {'other':>6}  imbalance against the best other [95 %]   oldest/mean wait  best other"
    )
    for part in args.part:
        if part in ("loads", "sizes"):
            parts[part](args.seeds)
    for trace in args.traces:
        options = ["--limit", str(args.limit), "--arrivals", "saturated"]
        name = Path(trace).name[:34]
        if not args.same_age:
            row(name, compared(trace, args.seeds, options, PAPERS))
            continue
        for limit in (0, 18):
            others = tuple(aged(policy, limit) for policy in AGED)
            found = compared(trace, args.seeds, options, others, aged(OURS, limit))
            row(f"{name[:24]} age {limit or 'free'}", found)
    for part in args.part:
        if part == "memory":
            memory(args.seeds, args.limit)
        elif part in sets or part == "speeds":
            (parts | sets)[part](args.seeds)


if __name__ == "__main__":
    main()
