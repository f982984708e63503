"""Random views for `checks`, the same in every run: some small, some short of memory, some with several groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenstep.policy_checks import window
from evenstep.request import F8, I8
from evenstep.routing.view import RoutingView


def check_views(horizon: int, memory: int, spare: int = 0) -> Iterator[RoutingView]:
    """Yield 60 random views of 1..16 workers in 1..3 groups with 0..24 waiting requests. Equal arguments give equal views.

    KV memory limits every fourth view. Every fifth has cached tokens, every sixth has different speeds if G > 1. `horizon`
    is H. `memory` is M, the number of int64 words in `RoutingView.memory`. The value ``spare + 1`` stands directly before
    and after each array, where a policy must not read. Views that differ only in `spare` must get equal answers.
    """
    for number in range(60):
        yield _view(np.random.default_rng(number), number, horizon, memory, spare)


def tight_views(horizon: int, memory: int) -> Iterator[RoutingView]:
    """Yield 120 random views short of KV memory; in most, some workers run nothing. Equal arguments give equal views.

    Every other view has a single worker. Some requests are nearly as large as a worker's KV memory, and some have waited
    long. `horizon` is H. `memory` is M, the number of int64 words in `RoutingView.memory`: 0 in every third view, random in
    the others.
    """
    for number in range(120):
        rng = np.random.default_rng(50_000 + number)
        G, W = 1 if number % 2 else int(rng.integers(2, 9)), int(rng.integers(1, 25))
        capacity = 25_000.0
        is_idle = rng.random(G) < (0.5 if G > 1 else 0.8)
        running = np.where(is_idle, 0, rng.integers(1, 6, G))
        load = np.where(is_idle, 0, rng.integers(100, 25_000, G)).astype(np.float64)
        ahead = np.concatenate([load[:, None], rng.integers(0, 30_000, (G, horizon)) * (load[:, None] > 0)], axis=1)
        large, is_large = rng.integers(15_000, 25_001, W), rng.random(W) < rng.choice([0.0, 0.3, 0.9])
        limit = rng.choice([capacity, 10_000.0]) if G > 1 else capacity
        kv_free = np.maximum(0.0, np.where(np.arange(G) % 3 == 1, limit, capacity) - load)
        keep = np.zeros(memory) if number % 3 == 0 else rng.integers(0, 5, memory)
        yield RoutingView(
            decision=number,
            seed=number % 3,
            now_s=1000.0,
            mean_wait_s=float(rng.integers(0, 3)),
            group=window(np.zeros(G), np.int64, 0),
            queued=window(np.zeros(G), np.int64, 0),
            queued_load=window(np.zeros(G), np.float64, 0),
            load=window(load, np.float64, 0),
            free_slots=window(rng.integers(1, 6, G), np.int64, 0),
            running=window(running, np.int64, 0),
            kv_free=window(kv_free, np.float64, 0),
            seconds_per_token=window(np.full(G, 1e-7), np.float64, 0),
            waiting_id=window(np.arange(W), np.int64, 0),
            waiting_load=window(np.where(is_large, large, rng.integers(1, 200, W)), np.float64, 0),
            waited_s=window(np.sort(rng.integers(0, 400, W) / 4)[::-1], np.float64, 0),
            waiting_class=window(np.zeros(W), np.int64, 0),
            waiting_key=window(np.arange(W), np.int64, 0),
            waiting_steps=window(np.full(W, np.nan), np.float64, 0),
            projections=window(ahead, np.float64, 0),
            growth=window(np.arange(horizon + 1), np.float64, 0),
            cached_tokens=window(np.zeros((0, 0)), np.float64, 0),
            memory=window(keep, np.int64, 0),
        )


def _view(rng: np.random.Generator, number: int, H: int, memory: int, spare: int) -> RoutingView:
    """Make view `number` of `check_views` with random numbers from `rng`. `H`, `memory` and `spare` are as there."""
    G, W = int(rng.integers(1, 17)), int(rng.integers(0, 25))
    groups = int(rng.integers(1, min(3, G) + 1))
    sizes = 8 if number % 3 == 0 else 4000  # few different sizes: many ties
    running, queued = rng.integers(0, 6, G), rng.integers(0, 2, G) * (number % 2)
    load = rng.integers(0, 4 * sizes, G) * (running > 0)
    ahead = np.concatenate([load[:, None], rng.integers(0, 4 * sizes, (G, H))], axis=1)
    ids: I8 = np.sort(rng.permutation(1000)[:W])
    steps: F8 = rng.integers(1, 500, W).astype(np.float64)
    steps[rng.random(W) < 0.5] = np.nan
    size: I8 = rng.integers(1, sizes, W)
    slower = np.arange(G) % 3 if number % 6 == 5 else np.zeros(G)
    cached = np.zeros((0, 0))
    if number % 5 == 2:  # whole tokens of every prompt on every worker
        share = np.random.default_rng(10_000 + number).integers(0, 5, (W, G)) / 4
        cached = np.floor(share * size[:, None])

    def ints(values: Any) -> I8:
        return window(values, np.int64, spare)

    def floats(values: Any) -> F8:
        return window(values, np.float64, spare)

    return RoutingView(
        decision=number,
        seed=number % 3,
        now_s=256.0,
        mean_wait_s=float(rng.integers(0, 3)),
        group=ints([*range(groups), *rng.integers(0, groups, G - groups)]),
        queued=ints(queued),
        queued_load=floats(rng.integers(1, sizes, G) * (queued > 0)),
        load=floats(load),
        free_slots=ints(rng.integers(0, 4, G)),
        running=ints(running),
        kv_free=floats(rng.integers(0, 3 * sizes, G) if number % 4 == 0 else np.full(G, np.inf)),
        seconds_per_token=floats(1e-7 * (1 + slower)),
        waiting_id=ints(ids),
        waiting_load=floats(size),
        waited_s=floats(np.sort(rng.integers(0, 200, W) / 4)[::-1]),
        waiting_class=ints(rng.integers(0, 2, W)),
        waiting_key=ints(ids // 4 if number % 2 else ids),
        waiting_steps=floats(steps),
        projections=floats(ahead),
        growth=floats(np.arange(H + 1)),
        cached_tokens=floats(cached),
        memory=ints(rng.integers(0, 5, memory)),
    )
