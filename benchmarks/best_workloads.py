"""Workloads that `best` is developed on, and others that it is judged by: `bench_best.py --part develop drawn held-out`.

Options of `best` are chosen on all of `DEVELOP` and `DRAWN_TOO` together, never on one. `HELD_OUT` is looked at once,
after that: its generated workloads are drawn by a key, and its recorded ones are other samples, other rows, or the same on
another fleet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenstep import Cluster, Trace, read_trace
from evenstep.request import I8


@dataclass(frozen=True)
class Workload:
    """A name, a fleet of G workers of B slots, and the requests, saturated."""

    name: str
    workers: int
    slots: int
    trace: Callable[[], Trace]

    def cluster(self) -> Cluster:
        return Cluster(workers=self.workers, slots=self.slots, pool=8 * self.workers)


def recorded(sample: str, first: int, rows: int) -> Callable[[], Trace]:
    """Rows of a bundled sample, lengths alone."""

    def trace() -> Trace:
        whole = read_trace(f"sample:{sample}")
        kept = slice(first, first + rows)
        return Trace(whole.prompt_tokens[kept], whole.output_tokens[kept], name=sample)

    return trace


def two(random: np.random.Generator, rows: int, small: int, large: int, share: float) -> I8:
    """int64[rows], `large` for a share of the rows, `small` for the others."""
    return np.where(random.random(rows) < share, large, small)


def lognormal(random: np.random.Generator, rows: int, median: float, sigma: float, most: int) -> I8:
    """int64[rows], at least 1 and at most `most`."""
    return np.clip(median * np.exp(sigma * random.standard_normal(rows)), 1, most).astype(np.int64)


def drawn(seed: int, prompts: Callable[..., I8], outputs: Callable[..., I8], rows: int) -> Callable[[], Trace]:
    """A generated trace; the laws are given a generator and the number of rows."""

    def trace() -> Trace:
        random = np.random.default_rng(seed)
        return Trace(prompts(random, rows), outputs(random, rows), name="generated")

    return trace


def chat(random: np.random.Generator, rows: int) -> I8:
    return lognormal(random, rows, 800.0, 0.9, 8000)


def replies(random: np.random.Generator, rows: int) -> I8:
    return lognormal(random, rows, 180.0, 0.8, 1500)


def mostly_small(random: np.random.Generator, rows: int) -> I8:
    small, large = random.integers(20, 200, rows), random.integers(4000, 40_000, rows)
    return np.where(random.random(rows) < 0.9, small, large)


DEVELOP = (
    Workload("long conversations", 16, 72, recorded("mooncake-conversation", 0, 3000)),
    Workload("chat", 16, 72, recorded("azure-conv", 0, 3000)),
    Workload("code", 8, 32, recorded("azure-code", 0, 2000)),
    Workload("translations", 8, 16, recorded("translation", 0, 800)),
    Workload("summaries", 8, 24, recorded("arxiv-summarization", 0, 1200)),
    Workload("agents", 8, 8, recorded("claude-code", 0, 1000)),
    Workload("prompts 100 or 60,000", 8, 16, drawn(1, lambda r, n: two(r, n, 100, 60_000, 0.1), replies, 4000)),
    Workload("outputs 5 or 2,000", 8, 16, drawn(2, chat, lambda r, n: two(r, n, 5, 2000, 0.15), 4000)),
    Workload("outputs 1 to 3", 8, 16, drawn(3, chat, lambda r, n: r.integers(1, 4, n), 4000)),
    Workload("a tenant of small ones", 8, 16, drawn(4, mostly_small, replies, 4000)),
    Workload("equal requests", 8, 16, drawn(5, lambda r, n: np.full(n, 1000), replies, 3000)),
    Workload("chat, few slots", 4, 8, drawn(6, chat, replies, 2000)),
)

#: Keys of the drawn workloads: those held out, and those to develop on.
DRAWN, TO_DEVELOP = 20261123, 777


def any_sizes(source: int, key: int, low: float, high: float) -> Callable[[np.random.Generator, int], I8]:
    """A law of lengths, itself drawn: lognormal, of two kinds, or level between two bounds, around a drawn median."""
    laws = np.random.default_rng([source, key])
    median, kind = float(np.exp(laws.uniform(np.log(low), np.log(high)))), int(laws.integers(0, 3))
    sigma, share, ratio = (
        float(laws.uniform(0.2, 1.3)),
        float(laws.uniform(0.05, 0.4)),
        float(laws.uniform(5, 50)),
    )

    def lengths(random: np.random.Generator, rows: int) -> I8:
        if kind == 0:
            return lognormal(random, rows, median, sigma, int(30 * median))
        if kind == 1:
            return two(random, rows, max(int(median / 4), 1), max(int(median * ratio / 4), 2), share)
        return random.integers(max(int(median / 3), 1), int(5 * median / 3) + 2, rows)

    return lengths


def any_workload(key: int, number: int) -> Workload:
    """One of the workloads drawn by the key."""
    fleet = np.random.default_rng([key, 1000 + number])
    workers, slots = int(fleet.choice([4, 8, 16])), int(fleet.choice([8, 16, 32]))
    prompts, outputs = any_sizes(key, 2 * number, 200, 8000), any_sizes(key, 2 * number + 1, 10, 600)
    return Workload(f"drawn {number}", workers, slots, drawn(number, prompts, outputs, 10 * workers * slots))


#: As those held out are drawn, by another key.
DRAWN_TOO = tuple(any_workload(TO_DEVELOP, number) for number in range(20))

HELD_OUT = (
    Workload("long conversations, few slots", 8, 12, recorded("mooncake-conversation", 1500, 1500)),
    Workload("chat, 32 slots", 16, 32, recorded("azure-conv", 0, 3000)),
    Workload("shared conversations", 16, 32, recorded("sharegpt", 0, 3000)),
    Workload("code, later rows", 8, 16, recorded("azure-code", 2000, 1000)),
    Workload("summaries, later rows", 16, 24, recorded("arxiv-summarization", 1200, 1800)),
    Workload("agents, later rows", 8, 16, recorded("claude-code", 1000, 2000)),
    *(any_workload(DRAWN, number) for number in range(6)),
)
