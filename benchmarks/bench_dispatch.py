"""What a live decision costs, and a chunk: rounds of a dispatcher by stage, at many workers and a full pool.

It cannot show sockets, parsing or a busy event loop: engines are lists, and the process does nothing else. Rounds are
those of a saturated fleet under way: every step each request delivers one chunk, some end, the pool is topped up, one
round decides. ``predict`` asks the predictor, in a call of its own before the round where many predictions are due.
``prepare`` builds the view (projections included, for a policy with a horizon), ``route`` is the policy with its checks,
``send`` makes the commands, ``whole`` is the call that does all three: for so long the host reads nothing. For BR-0 and
BR-H ``stage 1`` and ``stage 2`` are parts of ``route``: the same decision once more, cut after each stage. ``chunk`` is
one call of `produced`, the loop around it and its part of `count` included. The ``filling`` rows are the rounds in which
the empty fleet fills.

    python benchmarks/bench_dispatch.py [--workers 8 64] [--slots 72] [--waiting 512] [--rounds 400]
        [--policy NAME ...] [--groups one|each] [--blocks 0] [--pool-window N] [--round-slots N] [--cpu]
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import fields

import numpy as np

from evenstep import compiled
from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.dispatch.warming import warm
from evenstep.routing.balance_route.assign import PREPARATION, STAGE_ONE, STAGE_TWO
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.br_h import BRH

STEP_S = 0.05
clock = time.perf_counter
WARM = 30
STAGES = ("predict", "prepare", "stage 1", "stage 2", "route", "send", "whole")


class Fleet:
    """A saturated fleet in memory: prompts lognormal(6.1, 1.15) in 4..4096, outputs gamma(1.5, 180) in 1..2000."""

    def __init__(self, policy: str, workers: int, options: argparse.Namespace) -> None:
        self.random = np.random.default_rng(0)
        self.taken: dict[str, list[float]] = {name: [] for name in STAGES}
        settings = Settings(
            ttl_s=1e9,
            pool_limit=10**9,
            budget_ms=1e6,
            pool_window=options.pool_window,
            round_slots=options.round_slots,
        )
        self.dispatcher = Dispatcher(policy, settings=settings, stopwatch=clock)
        for name, stage in self.dispatcher.parts.meters.stages.items():
            stage.add = self.taken["send" if name == "apply" else name].append  # type: ignore[method-assign]
        self.cut = cut_of(self.dispatcher)
        self.now_s, self.requests, self.waiting, self.blocks = 0.0, 0, options.waiting, options.blocks
        self.streams: dict[int, list[int]] = {}  # request -> row, leg, tokens left
        self.chunk_s: list[float] = []
        self.sessions: dict[int, list[int]] = {}
        for g in range(workers):
            group = "one" if options.groups == "one" else ""
            spec = WorkerSpec(name=f"w{g}", group=group, slots=options.slots, scraped=False)
            self.dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=spec))

    def step(self) -> None:
        """One decode step of everybody, then its rounds."""
        self.now_s += STEP_S
        self.dispatcher.now_s = self.now_s
        produced, rows = self.dispatcher.produced, [stream[0] for stream in self.streams.values()]
        self.random.shuffle(rows)
        start = clock()
        for row in rows:
            produced(row, 1)
        self.dispatcher.count()
        if rows:
            self.chunk_s.append((clock() - start) / len(rows))
        for request, stream in list(self.streams.items()):
            stream[2] -= 1
            if stream[2] <= 0:
                del self.streams[request]
                self.dispatcher.handle(ev.Finished(now_s=self.now_s, request=request, leg=stream[1]))
        while len(self.dispatcher.pool) < self.waiting:
            self.arrive()
        self.tick()
        while self.dispatcher.due:
            self.tick()

    def arrive(self) -> None:
        self.requests += 1
        prompt = int(np.clip(self.random.lognormal(6.1, 1.15), 4, 4096))
        arrived = ev.Arrived(now_s=self.now_s, request=self.requests, prompt_tokens=prompt, blocks=self.prompt_blocks())
        self.dispatcher.handle(arrived)

    def prompt_blocks(self) -> tuple[int, ...]:
        """A conversation's blocks, one more at each of its turns, with an opening that all share."""
        if not self.blocks:
            return ()
        session = int(self.random.integers(0, 4 * self.waiting))
        mine = self.sessions.setdefault(session, [1, 2, 3])
        if len(mine) >= self.blocks:
            mine = self.sessions[session] = [1, 2, 3]
        mine.append(int(self.random.integers(4, 1 << 52)))
        return tuple(mine)

    def tick(self) -> None:
        decided, waiting = len(self.taken["prepare"]), len(self.dispatcher.pool)
        start = clock()
        commands = self.dispatcher.handle(ev.Tick(now_s=self.now_s))
        seconds = clock() - start
        if len(self.taken["prepare"]) == decided + 1:
            self.taken["whole"].append(seconds)
            for name, part in self.cut(self.now_s, waiting).items():
                self.taken[name].append(part)
        for command in commands:
            if isinstance(command, co.SendDecode):
                output = int(np.clip(self.random.gamma(1.5, 180), 1, 2000))
                self.streams[command.request] = [command.row, command.leg, output]


def cut_of(dispatcher: Dispatcher):  # type: ignore[no-untyped-def]
    """Seconds of stages 1 and 2 of the last decision, for BR-0 and BR-H; nothing for others."""
    policy = dispatcher.parts.deciding.call.policy
    if not isinstance(policy, BR0 | BRH):
        return lambda now_s, waiting: {}
    from evenstep.experiments.papers.balance_route.stages import BRHUntil

    options = {field.name: getattr(policy, field.name) for field in fields(BRH)} | {"age_limit": 0.0}
    stages = [BRHUntil(**options, until=stage) for stage in (PREPARATION, STAGE_ONE, STAGE_TWO)]
    parameters = [compiled.parameters(stage) for stage in stages]
    door, entry = dispatcher.parts.deciding.call, compiled.kernel_of(stages[0])
    memory = np.zeros(0, np.int64)

    def cut(now_s: float, waiting: int) -> dict[str, float]:
        packed = dispatcher.parts.deciding.packed
        waiting = min(waiting, dispatcher.settings.pool_window or waiting)
        worker = np.full(waiting, -1)
        projections = packed.projections if policy.horizon else packed.no_projections
        until: list[float] = []
        for stage in parameters:
            best = float("inf")
            for _ in range(3):
                start = clock()
                entry.route_into(
                    0,
                    0,
                    now_s,
                    0.0,
                    0,
                    waiting,
                    packed.workers_i,
                    packed.workers_f,
                    packed.waiting_i,
                    packed.waiting_f,
                    projections,
                    packed.growth,
                    packed.cached,
                    memory,
                    stage,
                    *door._scratch,
                    worker,
                )
                best = min(best, clock() - start)
            until.append(best)
        return {"stage 1": max(0.0, until[1] - until[0]), "stage 2": max(0.0, until[2] - until[1])}

    return cut


def show(policy: str, workers: int, phase: str, taken: dict[str, list[float]]) -> None:
    for name, seconds in taken.items():
        if seconds:
            us = 1e6 * np.array(seconds)
            p50, p99 = np.percentile(us, [50, 99])
            print(
                f"{policy:16} {workers:3} {phase:8} {name:8} {len(us):6} {p50:9.1f} {p99:9.1f} {us.max():9.1f}",
                flush=True,
            )


def measure(policy: str, workers: int, options: argparse.Namespace) -> None:
    warm(policy)
    fleet = Fleet(policy, workers, options)
    while len(fleet.streams) < 0.9 * workers * options.slots:
        fleet.step()
    show(policy, workers, "filling", fleet.taken)
    for _ in range(WARM):
        fleet.step()
    for stage in fleet.taken.values():
        stage.clear()
    fleet.chunk_s.clear()
    for _ in range(options.rounds):
        fleet.step()
    show(policy, workers, "full", fleet.taken)
    shown = fleet.dispatcher.snapshot()
    idle = 1.0 - shown["groups"][0]["balance_ratio"]
    chunk = 1e9 * np.median(fleet.chunk_s)
    print(f"{policy:16} {workers:3} chunk {chunk:.0f} ns; fallbacks {shown['fallback_total']}; loads uneven by {idle:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--slots", type=int, default=72)
    parser.add_argument("--waiting", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--policy", nargs="+", default=["br-0", "br-h", "best"])
    parser.add_argument("--groups", choices=["one", "each"], default="one", help="one barrier, or one a worker")
    parser.add_argument("--blocks", type=int, default=0, help="most prompt blocks of a request; 0 = none are known")
    parser.add_argument("--pool-window", type=int, default=Settings().pool_window)
    parser.add_argument("--round-slots", type=int, default=Settings().round_slots)
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of this thread: for a machine with other work")
    options = parser.parse_args()
    global clock  # noqa: PLW0603
    clock = time.thread_time if options.cpu else time.perf_counter
    print(f"# {' '.join(sys.argv)}; {compiled.mode()}; numpy {np.__version__}; {platform.machine()}")
    print(f"{'policy':16} {'G':>3} {'fleet':8} {'stage':8} {'rounds':>6} {'p50 us':>9} {'p99 us':>9} {'max us':>9}")
    for workers in options.workers:
        for policy in options.policy:
            measure(policy, workers, options)


if __name__ == "__main__":
    main()
