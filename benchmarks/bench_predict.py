"""How long one turn of the loop is kept by predictions: the longest calls of a dispatcher whose policy looks ahead.

It cannot show what a host does beside them. Processor time is counted, so that other processes matter less. All requests
fall due together, which is the worst case.

Run it: ``python benchmarks/bench_predict.py --workers 64 256``
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec


def turns(workers: int, slots: int, rounds: int, policy: str) -> np.ndarray:
    """float64[n], milliseconds of processor time of each call of a tick, of `rounds` rounds."""
    settings = Settings(ttl_s=1e9, pool_limit=10**9, gather_ms=0.0, round_slots=0)
    dispatcher = Dispatcher(policy, settings=settings, stopwatch=time.perf_counter)
    for g in range(workers):
        spec = WorkerSpec(name=f"w{g}", group="one", slots=slots, scraped=False)
        dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=spec))
    random, now_s, number = np.random.default_rng(0), 0.0, 0
    running: list[co.SendDecode] = []
    spent: list[float] = []

    def tick() -> None:
        while True:
            began = time.thread_time()
            told = dispatcher.handle(ev.Tick(now_s=now_s))
            spent.append(1000.0 * (time.thread_time() - began))
            running.extend(c for c in told if isinstance(c, co.SendDecode))
            if not dispatcher.due:
                return

    def arrive(count: int) -> None:
        nonlocal number
        for prompt in random.integers(50, 3000, count).tolist():
            number += 1
            arrived = ev.Arrived(now_s=now_s, request=number, prompt_tokens=prompt, max_tokens=500)
            dispatcher.handle(arrived)

    arrive(workers * slots)
    tick()
    spent.clear()
    for _ in range(rounds):
        for _ in range(4):
            now_s += 0.02
            dispatcher.now_s = now_s
            for one in running:
                dispatcher.produced(one.row, 1)
        gone = [running.pop(int(random.integers(len(running)))) for _ in range(max(1, workers // 8))]
        for one in gone:
            dispatcher.handle(ev.Finished(now_s=now_s, request=one.request, leg=one.leg))
        arrive(len(gone))
        tick()
    return np.array(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--policy", default="best")
    options = parser.parse_args()
    for workers in options.workers:
        turns(workers, 4, 5, options.policy)  # compiled, and in the caches
        found = turns(workers, options.slots, options.rounds, options.policy)
        p50, p99 = np.quantile(found, [0.5, 0.99])
        print(
            f"{workers} workers x {options.slots}: {len(found)} turns, median {p50:.2f} ms, p99 {p99:.2f} ms, "
            f"longest {found.max():.2f} ms"
        )


if __name__ == "__main__":
    main()
