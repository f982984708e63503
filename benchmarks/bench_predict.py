"""How long one turn of the loop is kept by a policy that looks ahead: the longest calls of its dispatcher.

It cannot show what a host does beside them. Processor time is counted, so that other processes matter less. All workers
step together and fill at once, so that predictions fall due together, which is the worst case. Outputs are uniform in
1..`--longest`, and windows of predictors fill up and move on. Settings are the gateway's, and so is what is compiled and
loaded before the first request.

Run it: ``python benchmarks/bench_predict.py --workers 64 256``
"""

from __future__ import annotations

import argparse
import gc
import time

import numpy as np

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.dispatch.warming import warm

_TOKENS = 4  # a round


class _Fleet:
    """Engines whose requests all get the same number of tokens between two rounds."""

    def __init__(self, workers: int, slots: int, longest: int, policy: str) -> None:
        settings = Settings(ttl_s=1e9, pool_limit=10**9, gather_ms=0.0, round_slots=32, window_per_slot=0.75)
        self.dispatcher = Dispatcher(policy, settings=settings, stopwatch=time.perf_counter)
        self.deciding = self.dispatcher.parts.deciding
        self.random, self.longest, self.requests = np.random.default_rng(0), longest, 0
        self.running: dict[int, tuple[co.SendDecode, int]] = {}  # request -> command, tokens left
        self.spent: list[tuple[float, str]] = []
        for g in range(workers):
            spec = WorkerSpec(name=f"w{g}", group="one", slots=slots, scraped=False)
            self.dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=spec))

    def tell(self, event: ev.Event) -> None:
        decisions, began = self.deciding.decisions, time.thread_time()
        told = self.dispatcher.handle(event)
        kind = type(event).__name__ if self.deciding.decisions == decisions else "decision"
        self.spent.append((1000.0 * (time.thread_time() - began), kind))
        for command in told:
            if isinstance(command, co.SendDecode):
                self.running[command.request] = command, int(self.random.integers(1, self.longest + 1))

    def arrive(self, count: int, now_s: float) -> None:
        for prompt in self.random.integers(50, 3000, count).tolist():
            self.requests += 1
            request = {"request": self.requests, "prompt_tokens": prompt, "max_tokens": self.longest}
            self.tell(ev.Arrived(now_s=now_s, **request))

    def tick(self, now_s: float) -> None:
        self.tell(ev.Tick(now_s=now_s))
        while self.dispatcher.due:
            self.tell(ev.Tick(now_s=now_s))

    def round(self, now_s: float) -> None:
        """Tokens for all, ends, as many arrivals, decisions."""
        self.dispatcher.now_s = now_s
        ended = 0
        for request, (command, left) in list(self.running.items()):
            self.dispatcher.produced(command.row, min(left, _TOKENS))
            self.running[request] = command, left - _TOKENS
            if left <= _TOKENS:
                del self.running[request]
                self.tell(ev.Finished(now_s=now_s, request=request, leg=command.leg))
                ended += 1
        self.arrive(ended, now_s)
        self.tick(now_s)


def turns(workers: int, slots: int, rounds: int, longest: int, policy: str) -> list[tuple[float, str]]:
    """Milliseconds of processor time of each call, and its event or "decision", of `rounds` rounds."""
    fleet = _Fleet(workers, slots, longest, policy)
    fleet.arrive(workers * slots, 0.0)
    fleet.tick(0.0)
    fleet.spent.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    for number in range(rounds):
        fleet.round(0.08 * (number + 1))
    gc.enable()
    return fleet.spent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--longest", type=int, default=500)
    parser.add_argument("--policy", default="best")
    options = parser.parse_args()
    warm(options.policy)
    for workers in options.workers:
        spent = turns(workers, options.slots, options.rounds, options.longest, options.policy)
        for kind, name in (("Tick", "predictions"), ("decision", "decisions"), ("Finished", "completions")):
            found = np.array([ms for ms, event in spent if event == kind])
            if not found.size:
                print(f"{workers} workers x {options.slots}, {name}: 0 calls in {options.rounds} rounds", flush=True)
                continue
            p50, p99, p999 = np.quantile(found, [0.5, 0.99, 0.999])
            print(
                f"{workers} workers x {options.slots}, {name}: {len(found)} calls, median {p50:.2f} ms, p99 {p99:.2f} ms, "
                f"p99.9 {p999:.2f} ms, longest {found.max():.2f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
