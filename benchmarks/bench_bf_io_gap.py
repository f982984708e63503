"""How far BF-IO's search is from the optimum, and what a window of the pool costs.

It cannot show optimality where the solver ran out of time: then the gap is to the better of both answers, and the gap
to the certified bound is printed beside it. A gap is a share of J of admitting nothing.

    python benchmarks/bench_bf_io_gap.py [--instances 200] [--seconds 5] [--windows 64 128 256 512]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import decision_views
from evenstep.routing.bf_io.exact import instance, objective, solve
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.view import HOLD, RoutingView

KINDS = {"burst": (6.1, 1.15, 4, 4096), "heavy": (np.log(4000), 1.1, 16, 60_000)}


def random_view(random: np.random.Generator, slots: int, horizon: int, kind: str, workers: int) -> RoutingView:
    """Workers that were even to 1 % before some of their requests ended; three times as many wait as slots are free."""
    mean, sigma, low, high = KINDS[kind]

    def prompts(count: int) -> np.ndarray:
        return np.clip(np.rint(random.lognormal(mean, sigma, count)), low, high)

    free = np.bincount(random.integers(0, workers, slots), minlength=workers).astype(np.int64)
    load, level = np.zeros((workers, horizon + 1)), 80.0 * prompts(4000).mean()
    for g in range(workers):
        load[g, 0] = max(0.0, level * (1 + 0.01 * random.standard_normal()) - prompts(int(free[g])).sum())
        ends = random.random(horizon) < 0.25
        load[g, 1:] = np.maximum(0.0, load[g, 0] + np.cumsum(72.0 - ends * prompts(horizon)))
    load, none = np.rint(load), np.zeros(workers, np.int64)
    size = prompts(3 * slots)
    ids, zeros = np.arange(size.size), np.zeros(size.size)
    return RoutingView(
        decision=0,
        seed=0,
        now_s=100.0,
        mean_wait_s=0.0,
        group=none,
        queued=none,
        queued_load=np.zeros(workers),
        load=load[:, 0].copy(),
        free_slots=free,
        running=none + 72,
        kv_free=np.full(workers, np.inf),
        seconds_per_token=np.full(workers, 1.1e-7),
        waiting_id=ids,
        waiting_load=size,
        waited_s=zeros,
        waiting_class=np.zeros(size.size, np.int64),
        waiting_key=ids,
        waiting_steps=np.full(size.size, np.nan),
        projections=load,
        growth=np.arange(horizon + 1.0),
        cached_tokens=np.zeros((0, 0)),
        memory=none[:0],
    )


def gaps(instances: int, seconds: float) -> None:
    """Gap to the exact answer and to its bound, by slots, horizon and prompts."""
    random = np.random.default_rng(0)
    cells = list(itertools.product((2, 8, 16, 32), (0, 10), KINDS))
    print(f"{'slots':>5} {'H':>3} {'prompts':8} {'mean %':>7} {'max %':>7} {'mean to bound %':>16}")
    everything: list[float] = []
    for slots, horizon, kind in cells:
        to_best, to_bound = [], []
        for number in range(-(-instances // len(cells))):
            view = random_view(random, slots, horizon, kind, min(slots, (4, 8, 16)[number % 3]))
            asked = instance(view, horizon, 1.0, 0, 0.0)
            found = BFIO(horizon=horizon).route(view).worker
            best, bound = solve(asked, found, relative_gap=1e-4, seconds=seconds)
            nothing = objective(asked, np.full(asked.size.size, HOLD))
            to_best.append((objective(asked, found) - objective(asked, best)) / nothing)
            to_bound.append((objective(asked, found) - bound) / nothing)
        everything += to_best
        mean, most, bound_mean = 100 * np.mean(to_best), 100 * max(to_best), 100 * np.mean(to_bound)
        print(f"{slots:5} {horizon:3} {kind:8} {mean:7.3f} {most:7.3f} {bound_mean:16.3f}", flush=True)
    print(f"all: mean {100 * np.mean(everything):.3f} %, max {100 * max(everything):.3f} %")


def windows(sizes: list[int], workers: int = 256, waiting: int = 1024, horizon: int = 20, count: int = 20) -> None:
    """What looking at the oldest requests only adds to J, in shares of J of admitting nothing."""
    views = decision_views.saturated_views(workers, waiting, horizon, count)
    print(f"window of {waiting} waiting, G = {workers}, H = {horizon}: added to J, %")
    whole: list[float] = []
    for window in (0, *sizes):
        policy, added = BFIO(horizon=horizon, window=window), []
        for number, view in enumerate(views):
            asked = instance(view, horizon, 1.0, 0, 0.0)
            value = objective(asked, policy.route(view).worker)
            if window == 0:
                whole.append(value)
            nothing = objective(asked, np.full(asked.size.size, HOLD))
            added.append(100 * (value - whole[number]) / nothing)
        print(f"{window or 'all':>6} mean {np.mean(added):7.3f} max {max(added):7.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--windows", type=int, nargs="+", default=[64, 128, 256, 512])
    options = parser.parse_args()
    print(f"# {' '.join(sys.argv)}")
    gaps(options.instances, options.seconds)
    windows(options.windows)


if __name__ == "__main__":
    main()
