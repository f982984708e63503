"""What one routing decision costs: p50, p99 and maximum over many moments of a saturated fleet.

It cannot show cache misses of a busy host, nor the host's work of keeping pool and loads: views are
made beforehand and each decision is repeated, so its data are warm. The distribution is over decisions, not over
noise: a decision's time is the best of five means of its repeats, called from
compiled code as the simulator does. One call from Python costs some microseconds more; the last column shows it.
"Scaled" is the p99 on a machine where plain NumPy FCFS at (16, 72), without energies in its records, makes 18,000 steps a
CPU second; that yardstick ("yard") is taken before and after each row.

    python benchmarks/bench_decision.py [--workers 8 32 144 256] [--waiting 64 256 1024] [--policy NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import decision_views
from bench_simulator import YARDSTICK_STEPS_PER_S, burst, plain_step_s
from contenders import plain_numpy
from evenstep import compiled, names
from evenstep.cost.linear import Linear
from evenstep.policy_rules import KernelCall
from evenstep.predict import departures
from evenstep.request import Trace
from evenstep.routing.checks import kernel_call
from evenstep.routing.view import expects_loads, horizon_of
from evenstep.sim.cluster import lookahead as lookahead_kernel
from evenstep.sim.cluster.model import EXPECTED
from evenstep.sim.cluster.simulation import Cluster
from evenstep.sim.cluster.state import Options, prepared

VIEWS, REPEATS, ROUNDS = 300, 50, 5


@compiled.declared(None if compiled.INT is None else compiled.INT(compiled.INT, compiled.ROUTE_TYPE, *compiled.ROUTE.args))
def _repeat(
    repeats,
    route_into,
    a,
    b,
    c,
    d,
    e,
    f,
    workers_i,
    workers_f,
    waiting_i,
    waiting_f,
    projections,
    growth,
    cached,
    memory,
    parameters,
    scratch_i,
    scratch_f,
    worker,
):
    for _ in range(repeats):
        route_into(
            a,
            b,
            c,
            d,
            e,
            f,
            workers_i,
            workers_f,
            waiting_i,
            waiting_f,
            projections,
            growth,
            cached,
            memory,
            parameters,
            scratch_i,
            scratch_f,
            worker,
        )
    return repeats


def seconds(call: KernelCall) -> float:
    """Seconds of one decision: mean of the repeats, the best of a few rounds, less the cost of entering the loop."""
    _repeat(1, call.function, *call.arguments)
    full, empty = [], []
    for _ in range(ROUNDS):
        start = time.thread_time()
        _repeat(REPEATS, call.function, *call.arguments)
        middle = time.thread_time()
        _repeat(0, call.function, *call.arguments)
        full.append(middle - start)
        empty.append(time.thread_time() - middle)
    return max(0.0, min(full) - min(empty)) / REPEATS


@compiled.jit
def _project_all(repeats, load, running, counts, loads, projected):
    for _ in range(repeats):
        for g in range(load.size):
            departures.project(load[g], running[g], 0, 1, 1.0, counts[g], loads[g], projected[g])


def projection_s(workers: int, horizon: int) -> float:
    """Seconds of reading all workers' projections from their windows of departures; 0 without a horizon."""
    if horizon == 0:
        return 0.0
    rng = np.random.default_rng(0)
    mask = (1 << horizon.bit_length()) - 1
    counts = rng.poisson(decision_views.COMPLETIONS, (workers, mask + 1)).astype(np.int64)
    loads, projected = counts * 800, np.zeros((workers, horizon + 1))
    load, running = np.full(workers, 60_000), np.full(workers, decision_views.SLOTS)
    _project_all(1, load, running, counts, loads, projected)
    start = time.thread_time()
    _project_all(200, load, running, counts, loads, projected)
    return (time.thread_time() - start) / 200


class _Ahead:
    """A policy that looks ahead; it is never asked."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon


def expectation_s(workers: int, horizon: int) -> float:
    """Seconds of adding up all workers' expected loads from their requests' survival curves."""
    slots, refresh_every = workers * decision_views.SLOTS, 16
    one = np.ones(1, np.int64)
    options = Options(prediction=EXPECTED, refresh_every=refresh_every, decisions=True)
    run = prepared(Trace(one, one), _Ahead(horizon), Cluster(workers, decision_views.SLOTS), Linear(), options).run
    compiled.fill(run.slots.rows, row=0, units=800)
    predicted = np.random.default_rng(0).integers(1, refresh_every + 1, slots)
    compiled.fill(run.ahead.look, predicted=predicted)
    run.fleet.groups[0].step = refresh_every
    run.ahead.curves[:] = 0.997 ** np.arange(run.ahead.curves.shape[1])
    _expect_all(1, run)
    start = time.thread_time()
    _expect_all(200, run)
    return (time.thread_time() - start) / 200


@compiled.jit
def _expect_all(repeats, run):
    for _ in range(repeats):
        lookahead_kernel.project_expected(run)


def yardstick() -> float:
    """Steps that plain NumPy FCFS makes in a CPU second on this machine, now."""
    trace = burst(20_000)
    return 1.0 / float(np.median([plain_step_s(trace, plain_numpy.fcfs, 16, 72, 0, 800, False) for _ in range(3)]))


def from_python(calls: list[KernelCall]) -> float:
    """Median seconds of one call of the kernel from Python."""
    taken = []
    for call in calls:
        start = time.thread_time()
        call.function(*call.arguments)
        taken.append(time.thread_time() - start)
    return float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32, 144, 256])
    parser.add_argument("--waiting", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--policy", nargs="+", default=None)
    options = parser.parse_args()
    versions = f"{compiled.mode()}; numpy {np.__version__}; {platform.machine()}"
    print(f"# {' '.join(sys.argv)}; {versions}")
    print(
        f"{'policy':32} {'G':>4} {'pool':>5} {'admit':>6} {'p50 us':>8} {'p99 us':>8} {'max us':>8}"
        f" {'scaled us':>9} {'ahead us':>9} {'python us':>9} {'yard':>6}"
    )
    for G in options.workers:
        for W in options.waiting:
            for text in options.policy or contenders():
                row(text, G, W)


def contenders() -> list[str]:
    """Policies of all modules ``contenders/decision_*.py``."""
    files = sorted((Path(__file__).parent / "contenders").glob("decision_*.py"))
    return [text for file in files for text in importlib.import_module(f"contenders.{file.stem}").POLICIES]


def row(text: str, G: int, W: int) -> None:
    policy = names.build("routing", names.parse(text))
    views = decision_views.saturated_views(G, W, horizon_of(policy), VIEWS)
    calls = [call for view in views if (call := kernel_call(policy, view)) is not None]
    if not calls:
        raise SystemExit(f"{text} has no kernel")
    prepared = expectation_s if expects_loads(policy) else projection_s
    ahead = prepared(G, horizon_of(policy))
    yard = yardstick()
    taken = 1e6 * (ahead + np.array([seconds(call) for call in calls]))
    yard = (yard + yardstick()) / 2
    admitted = np.mean([min(int(view.free_slots.sum()), W) for view in views])
    p50, p99 = np.percentile(taken, [50, 99])
    python = 1e6 * from_python(calls)
    print(
        f"{text:32} {G:4} {W:5} {admitted:6.1f} {p50:8.3f} {p99:8.3f} {taken.max():8.3f}"
        f" {p99 * yard / YARDSTICK_STEPS_PER_S:9.3f} {1e6 * ahead:9.3f} {python:9.2f} {yard:6.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
