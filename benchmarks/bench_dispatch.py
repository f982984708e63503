"""What a live decision costs, and a chunk: rounds of a dispatcher by stage, at many workers and a full pool.

It cannot show sockets, parsing or a busy event loop: engines are lists, and the process does nothing else. Rounds are
those of a saturated fleet under way: every step each request delivers one chunk, some end, the pool is topped up, one
round decides. ``prepare`` builds the view (with predictions and projections, for a policy with a horizon), ``route`` is
the policy with its checks, ``apply`` sends. ``chunk`` is one call of `produced`, the loop around it included.

    python benchmarks/bench_dispatch.py [--workers 64] [--slots 72] [--waiting 512] [--rounds 400] [--policy NAME ...]
"""

from __future__ import annotations

import argparse
import platform
import sys
import time

import numpy as np

from evenstep import compiled
from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.dispatcher import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec

STEP_S = 0.05
WARM = 30


class Fleet:
    """A saturated fleet in memory: prompts lognormal(6.1, 1.15) in 4..4096, outputs gamma(1.5, 180) in 1..2000."""

    def __init__(self, policy: str, workers: int, slots: int, waiting: int) -> None:
        self.random = np.random.default_rng(0)
        self.stages: dict[str, list[float]] = {"prepare": [], "route": [], "apply": []}
        settings = Settings(ttl_s=1e9, pool_limit=10**9, budget_ms=1e6)
        self.dispatcher = Dispatcher(policy, settings=settings, stopwatch=time.perf_counter)
        for name, stage in self.dispatcher.meters.stages.items():
            stage.add = self.stages[name].append  # type: ignore[method-assign]
        self.now_s, self.requests, self.waiting = 0.0, 0, waiting
        self.streams: dict[int, list[int]] = {}  # request -> row, leg, tokens left
        self.chunk_s: list[float] = []
        for g in range(workers):
            spec = WorkerSpec(name=f"w{g}", group="one", slots=slots, scraped=False)
            self.dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=spec))

    def step(self) -> None:
        """One decode step of everybody, then one round."""
        self.now_s += STEP_S
        self.dispatcher.now_s = self.now_s
        produced, rows = self.dispatcher.produced, [stream[0] for stream in self.streams.values()]
        self.random.shuffle(rows)
        start = time.perf_counter()
        for row in rows:
            produced(row, 1)
        if rows:
            self.chunk_s.append((time.perf_counter() - start) / len(rows))
        for request, stream in list(self.streams.items()):
            stream[2] -= 1
            if stream[2] <= 0:
                del self.streams[request]
                self.dispatcher.handle(ev.Finished(now_s=self.now_s, request=request, leg=stream[1]))
        while len(self.dispatcher.pool) < self.waiting:
            self.requests += 1
            prompt = int(np.clip(self.random.lognormal(6.1, 1.15), 4, 4096))
            self.dispatcher.handle(ev.Arrived(now_s=self.now_s, request=self.requests, prompt_tokens=prompt))
        for command in self.dispatcher.handle(ev.Tick(now_s=self.now_s)):
            if isinstance(command, co.SendDecode):
                output = int(np.clip(self.random.gamma(1.5, 180), 1, 2000))
                self.streams[command.request] = [command.row, command.leg, output]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--slots", type=int, default=72)
    parser.add_argument("--waiting", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--policy", nargs="+", default=["br-0", "br-h", "best"])
    options = parser.parse_args()
    print(f"# {' '.join(sys.argv)}; {compiled.mode()}; numpy {np.__version__}; {platform.machine()}")
    print(f"{'policy':16} {'stage':8} {'p50 us':>9} {'p99 us':>9} {'max us':>9}")
    for policy in options.policy:
        fleet = Fleet(policy, options.workers, options.slots, options.waiting)
        while len(fleet.streams) < 0.9 * options.workers * options.slots:
            fleet.step()
        for _ in range(WARM):
            fleet.step()
        for stage in fleet.stages.values():
            stage.clear()
        fleet.chunk_s.clear()
        for _ in range(options.rounds):
            fleet.step()
        rows = {name: np.array(taken) for name, taken in fleet.stages.items()}
        rows["whole"] = np.sum([taken[: min(map(len, rows.values()))] for taken in rows.values()], axis=0)
        for name, taken in rows.items():
            p50, p99 = np.percentile(1e6 * taken, [50, 99])
            print(f"{policy:16} {name:8} {p50:9.1f} {p99:9.1f} {1e6 * taken.max():9.1f}", flush=True)
        shown = fleet.dispatcher.snapshot()
        idle = 1.0 - shown["groups"][0]["balance_ratio"]
        chunk = 1e9 * np.median(fleet.chunk_s)
        print(
            f"{policy:16} chunk {chunk:.0f} ns; fallbacks {shown['fallback_total']}; loads uneven by {idle:.4f}"
        )


if __name__ == "__main__":
    main()
