"""Prefix caches and balance, live: what each policy hits of the prompts, and how evenly it loads the workers.

A dispatcher with its own index of prompt blocks drives a barrier group in memory, closed loop: sessions whose calls follow
each other, each call's prompt the one before with more behind it. A call first prefills what is not cached where it went
(``--prefill`` tokens a second and worker; the worker's running requests go on meanwhile, as with a prefiller beside it),
then it decodes one token a step; a step lasts ``4.9 ms + 1.1e-7 s`` a KV token of the heaviest worker. So a hit saves
prefill, and an uneven fleet costs every step.

It cannot show what eviction under memory pressure costs, nor prefill and decode in the way of each other: the cache of a
worker is an index of bounded size, KV memory itself is not limited. Without FILE sessions are made up: an opening that all
share, turns that grow, lengths of coding agents. FILE is any trace with sessions and prefix blocks, for instance a WEKA
file of agentic sessions.

    python benchmarks/bench_prefixes.py [FILE] [--requests 6000] [--workers 8] [--slots 8] [--sessions 40 96] [--room 4096]
"""

from __future__ import annotations

import argparse
import heapq
import platform
import sys
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from evenstep import compiled
from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.sim.cluster.prefix_caches import block_keys
from evenstep.workload.reading import read_trace

POLICIES = (
    "least-load",
    "jsq",
    "consistent-hash",
    "prefix-affinity",
    "best:affinity=0",
    "best",
    "best:affinity=1000",
    "best:affinity=10000",
)
OVERHEAD_S, PER_TOKEN_S = 0.0049, 1.1e-7
BLOCK_TOKENS = 1024
LONGEST_THOUGHT_S = 30.0


@dataclass
class Call:
    """One request: its session, lengths, blocks of its prompt, seconds after the call before it."""

    session: int
    prompt: int
    output: int
    blocks: tuple[int, ...]
    think_s: float


def chained(keys: np.ndarray, every: int) -> tuple[int, ...]:
    """Every so many-th of a prompt's block ids, each standing for all before it."""
    found, so_far = [], 0
    for place, key in enumerate(keys.tolist()):
        so_far = hash((so_far, key)) & (2**62 - 1)
        if (place + 1) % every == 0:
            found.append(so_far)
    return tuple(found)


def recorded(path: str, requests: int) -> list[Call]:
    trace = read_trace(path, limit=requests)
    blocks = trace.prefix_blocks
    if blocks is None:
        raise SystemExit(f"{path} has no prefix blocks")
    keys, starts = block_keys(trace), blocks.offsets
    every = max(1, BLOCK_TOKENS // blocks.block_tokens)
    session, think = trace.column("session"), trace.column("think_s")
    return [
        Call(
            int(session[r]),
            int(trace.prompt_tokens[r]),
            int(trace.output_tokens[r]),
            chained(keys[starts[r] : starts[r + 1]], every),
            min(LONGEST_THOUGHT_S, float(think[r])),
        )
        for r in range(min(requests, len(trace)))
    ]


def made_up(requests: int) -> list[Call]:
    """Sessions of about 15 calls: 16,000 tokens that all share, then some 2,500 more each call."""
    random, calls, session = np.random.default_rng(0), list[Call](), 0
    while len(calls) < requests:
        prompt = 16_000 + int(random.integers(1_000, 30_000))
        for _ in range(int(random.geometric(1 / 15))):
            ids = np.where(np.arange(prompt // BLOCK_TOKENS) < 15, 0, session + 1)
            output = int(np.clip(random.lognormal(5.4, 1.1), 1, 4000))
            calls.append(Call(session, prompt, output, chained(ids, 1), float(min(30.0, random.lognormal(1.5, 1.0)))))
            prompt += output + int(random.lognormal(7.2, 1.0))
        session += 1
    return calls[:requests]


@dataclass
class Fleet:
    """The workers, closed loop."""

    dispatcher: Dispatcher
    calls: list[Call]
    live: int
    options: argparse.Namespace
    now_s: float = 0.0
    held: dict[str, list[int]] = field(default_factory=dict)  # worker -> requests decoding there
    ready: list[tuple[float, int, str]] = field(default_factory=list)  # when a prefill is done
    busy_s: dict[str, float] = field(default_factory=dict)  # until when a worker prefills
    streams: dict[int, list[int]] = field(default_factory=dict)  # request -> row, leg, tokens left, load
    asked_s: dict[int, float] = field(default_factory=dict)
    first_s: list[float] = field(default_factory=list)
    hit_of: dict[int, int] = field(default_factory=dict)  # row -> prompt tokens that were cached where it went
    load: dict[str, int] = field(default_factory=dict)  # worker -> KV tokens of what decodes there
    computed: int = 0
    idle: float = 0.0
    steps: int = 0
    tokens: int = 0

    def run(self) -> None:
        """Until no further session can begin: from then on the fleet runs empty."""
        self.watch_hits()
        for name in (f"w{g}" for g in range(self.options.workers)):
            self.held[name], self.busy_s[name], self.load[name] = [], 0.0, 0
            spec = WorkerSpec(name=name, group="one", slots=self.options.slots, scraped=False)
            self.tell(ev.WorkerAdded(now_s=0.0, spec=spec))
        queues: dict[int, deque[int]] = {}
        for request, call in enumerate(self.calls):
            queues.setdefault(call.session, deque()).append(request)
        waiting = deque(queues.values())
        due = [(0.0, waiting.popleft()) for _ in range(self.live)]
        coming = [(at_s, number, queue) for number, (at_s, queue) in enumerate(due)]
        number = len(coming)
        mine: dict[int, deque[int]] = {}
        while waiting:
            while coming and coming[0][0] <= self.now_s:
                _, _, queue = heapq.heappop(coming)
                request = queue.popleft()
                mine[request] = queue
                self.arrive(request)
            for request in self.step(coming[0][0] if coming else float("inf")):
                queue, number = mine.pop(request), number + 1
                if queue:
                    heapq.heappush(coming, (self.now_s + self.calls[queue[0]].think_s, number, queue))
                elif waiting:
                    heapq.heappush(coming, (self.now_s, number, waiting.popleft()))

    def arrive(self, request: int) -> None:
        call = self.calls[request]
        self.asked_s[request] = self.now_s
        self.tell(
            ev.Arrived(
                now_s=self.now_s, request=request, prompt_tokens=call.prompt, session=call.session + 1, blocks=call.blocks
            )
        )

    def tell(self, event: ev.Event) -> None:
        for command in self.dispatcher.handle(event):
            if isinstance(command, co.SendDecode):
                call = self.calls[command.request]
                cold = call.prompt - self.hit_of.pop(command.row)
                self.computed += cold
                start_s = max(self.now_s, self.busy_s[command.worker])
                self.busy_s[command.worker] = start_s + cold / self.options.prefill
                heapq.heappush(self.ready, (self.busy_s[command.worker], command.request, command.worker))
                self.streams[command.request] = [command.row, command.leg, call.output, call.prompt]

    def watch_hits(self) -> None:
        """Note what each request hits as it is sent."""
        prefixes = self.dispatcher.parts.prefixes
        sent = prefixes.sent

        def noted(row: int, worker: int, prompt: int) -> None:
            before = prefixes.hit_tokens
            sent(row, worker, prompt)
            self.hit_of[row] = prefixes.hit_tokens - before

        prefixes.sent = noted  # type: ignore[method-assign]

    def step(self, until_s: float) -> list[int]:
        """Rounds, then one decode step; the requests that ended."""
        self.tell(ev.Tick(now_s=self.now_s))
        while self.dispatcher.due:
            self.tell(ev.Tick(now_s=self.now_s))
        while self.ready and self.ready[0][0] <= self.now_s:
            _, request, worker = heapq.heappop(self.ready)
            self.held[worker].append(request)
            self.load[worker] += self.streams[request][3]
        loads = list(self.load.values())
        if not any(loads):
            self.now_s = min(until_s, self.ready[0][0] if self.ready else float("inf"))
            return []
        self.now_s += OVERHEAD_S + PER_TOKEN_S * max(loads)
        self.idle += 1.0 - sum(loads) / len(loads) / max(loads)
        self.steps += 1
        self.dispatcher.now_s = self.now_s
        ended: list[int] = []
        produced = self.dispatcher.produced
        for worker, requests in self.held.items():
            before = len(ended)
            for request in requests:
                stream = self.streams[request]
                if stream[3] == self.calls[request].prompt:
                    self.first_s.append(self.now_s - self.asked_s.pop(request))
                produced(stream[0], 1)
                stream[2], stream[3] = stream[2] - 1, stream[3] + 1
                if stream[2] <= 0:
                    ended.append(request)
            self.load[worker] += len(requests) - sum(self.streams[r][3] for r in ended[before:])
            self.tokens += len(requests)
            if len(ended) > before:
                requests[:] = [r for r in requests if self.streams[r][2] > 0]
        for request in ended:
            leg = self.streams.pop(request)[1]
            self.tell(ev.Finished(now_s=self.now_s, request=request, leg=leg))
        return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--sessions", type=int, nargs="+", default=[40, 96], help="sessions under way at a time")
    parser.add_argument("--room", type=int, default=4096, help=f"blocks of {BLOCK_TOKENS} tokens a worker keeps")
    parser.add_argument("--prefill", type=float, default=20_000.0, help="prompt tokens a worker computes a second")
    parser.add_argument("--policy", nargs="+", default=list(POLICIES))
    options = parser.parse_args()
    calls = recorded(options.file, options.requests) if options.file else made_up(options.requests)
    print(f"# {' '.join(sys.argv)}; {compiled.mode()}; numpy {np.__version__}; {platform.machine()}")
    sessions, prompt = len({call.session for call in calls}), np.mean([call.prompt for call in calls])
    print(f"# {len(calls)} calls, {sessions} sessions, mean prompt {prompt:.0f}")
    print(f"{'policy':20} {'hit':>7} {'prefill Mtok':>12} {'idle':>7} {'tokens/s':>9} {'TTFT p50 s':>10} {'TTFT p95 s':>10}")
    for live in options.sessions:
        if live >= sessions:
            parser.error(f"--sessions is {live}; the workload has {sessions}, take more --requests")
        for policy in options.policy:
            show(policy, live, calls, options)


def show(policy: str, live: int, calls: list[Call], options: argparse.Namespace) -> None:
    settings = Settings(ttl_s=1e9, pool_limit=10**9, budget_ms=1e6, prefix_blocks=options.room)
    fleet = Fleet(Dispatcher(policy, settings=settings), calls, live, options)
    fleet.run()
    shown = fleet.dispatcher.snapshot()
    hit = shown["prefix_hit_tokens_total"] / shown["prefix_prompt_tokens_total"]
    p50, p95 = np.percentile(fleet.first_s, [50, 95])
    print(
        f"{policy:20} {live:8} {hit:7.1%} {fleet.computed / 1e6:12.1f} {fleet.idle / fleet.steps:7.2%}"
        f" {fleet.tokens / fleet.now_s:9.0f} {p50:10.2f} {p95:10.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
