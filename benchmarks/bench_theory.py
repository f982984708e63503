"""What closed forms and solvers cost: CPU time of thresholds, of the worst mix of lengths, and of one largest stable rate.

It has no baseline, since each figure is held to a time. It cannot show the first call of a process, which compiles.

    python benchmarks/bench_theory.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np

from evenstep import __version__, compiled
from evenstep.cost.token_budget import TokenBudget
from evenstep.experiments.frontier import Bisection, Case
from evenstep.experiments.lengths import alike
from evenstep.sim.engine.simulation import Engine
from evenstep.theory import intervals, nested_thresholds, wait_thresholds
from evenstep.theory.fluid import Types

SHARES = 0.99 ** np.arange(500)
TYPES = Types((300 * SHARES / SHARES.sum()).tolist(), (20,) * 500, tuple(range(1, 501)), 0.01, 1e-7)
ENGINE = Engine(token_budget=512, batch_limit=0, first_token="decode")
CASE = Case("sarathi", TokenBudget(), ENGINE, alike(129, 112))


def bisected() -> None:
    """One replicate of the largest stable rate, to 1 %."""
    Bisection(CASE, CASE.closed.requests_per_s or 0.0, 12_000, 0.01, 0, 0).search()


#: What is timed, and the seconds it is held to.
HELD: dict[str, tuple[Callable[[], object], float]] = {
    "thresholds of WAIT, 500 types": (lambda: wait_thresholds.least(TYPES), 0.05),
    "thresholds of Nested WAIT, 500 types": (lambda: nested_thresholds.solve(TYPES), 0.05),
    "largest Rayleigh quotient, u = 1,000": (lambda: intervals.a_min_worst(1000), 1.0),
    "largest stable rate, one bisection to 1 %": (bisected, 60.0),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"evenstep {__version__} ({compiled.mode()}), Python {platform.python_version()}, {platform.machine()}")
    for name, (call, held_s) in HELD.items():
        call()
        taken_s: list[float] = []
        for _ in range(args.rounds):
            begin_s = time.process_time()
            call()
            taken_s.append(time.process_time() - begin_s)
        least, middle, most = (1e3 * float(np.quantile(taken_s, share)) for share in (0, 0.5, 1))
        print(f"{name}: {middle:.1f} [{least:.1f}, {most:.1f}] ms CPU; held to {1e3 * held_s:,.0f}")


if __name__ == "__main__":
    main()
