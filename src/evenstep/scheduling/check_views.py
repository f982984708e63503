"""Random, consistent views for `checks`: the same ones every time, some short of memory, some with KV swapped out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenstep.policy_checks import window
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.view import ROWS, UNLIMITED, EngineView


def check_views(order: QueueOrder, memory: int, spare: int = 0) -> Iterator[EngineView]:
    """Yield 60 views of 0 to 12 running and 0 to 12 waiting requests, the waiting ones in the policy's order.

    Calls with equal `order` and `memory` yield the same views, except for `spare`.

    Args:
        order: the policy's order of the queue.
        memory: number of words that the policy keeps; all are 0, as before its first decision.
        spare: value in the larger arrays just outside each array of the view. A policy must not read there: equal views
            with different `spare` must get equal answers.
    """
    for number in range(60):
        yield _view(np.random.default_rng(number), number, order, memory, spare)


def _view(rng: np.random.Generator, number: int, order: QueueOrder, memory: int, spare: int) -> EngineView:
    """Make one random view; `number` selects its block size, limits, memory and other engine settings."""
    R, W = int(rng.integers(0, 13)), int(rng.integers(0, 13))
    N, block, later = R + W, (1, 4, 16)[number % 3], number % 2
    hold = 0 if later else int(rng.integers(0, 2))
    prompt, reached = rng.integers(1, 60, N), rng.integers(1, 60, N)
    is_running, share = np.arange(N) < R, rng.random(N)
    moved = ~is_running & (rng.random(N) < 0.2) & (number % 5 == 0)  # evicted, its KV kept elsewhere
    decoding = (is_running | moved) & (share > 0.4)
    again = ~decoding & (rng.random(N) < 0.2)  # evicted, to be computed again
    produced = np.where(decoding | again, reached, 0)
    computed = prompt + produced - (0 if later else 1)
    prompt += (is_running | moved) & ~decoding  # a prefill under way: a token has run, another has not
    partly = np.where(is_running | moved, 1 + (prompt - 2) * share, 0).astype(np.int64)
    prefilled = np.where(decoding, computed, partly)
    left = np.where(decoding, 1, prompt + produced - prefilled)
    if not later:
        decoding = (produced > 0) & (left == 1)
    held = np.where(is_running, prefilled + hold * decoding, 0)
    resident = -(-held // block) * block
    largest = -(-(prompt + reached + 61) // block) * block  # each has room when it is alone
    tight = int(resident.sum()) + block * int(rng.integers(0, 12))
    capacity = max(tight, int(largest.max(initial=block)))
    if number % 4 == 3:
        capacity = UNLIMITED // block * block
    low = rng.integers(0, 50, N)
    high = low + rng.integers(0, 50, N)
    arrival = np.sort(rng.integers(0, 40, N) / 4)
    evictions = (again | moved).astype(np.int64)
    reached = np.where(evictions > 0, reached, 0)
    lost_at = np.where(moved, produced, reached * share).astype(np.int64)
    ids, lengths = np.arange(N), (prompt, prefilled, produced, reached, left, resident, low, high)
    rows = np.array([ids, ids % 2, *lengths, evictions, decoding, lost_at], np.int64)
    key = order.keys(number % 3, rows, arrival).tolist()
    shown = [*range(R), *sorted(range(R, N), key=lambda k: (key[k], k))]  # those that run, then the queue by key
    return EngineView(
        iteration=number,
        seed=number % 3,
        now_s=12.0,
        token_budget=(1, 7, 64, UNLIMITED)[number % 4],
        batch_limit=(UNLIMITED, 3, 30)[number % 3],
        kv_capacity=capacity,
        kv_free=capacity - int(resident.sum()),
        block_tokens=block,
        hold_produced=hold,
        arrived=window(np.array([N, N]), np.int64, spare),
        memory=window(np.zeros(memory), np.int64, spare),
        **{
            name: window(values[shown], np.int64, spare)
            for name, values in zip(ROWS, rows, strict=True)
            if name != "decoding"
        },
        arrival_s=window(arrival[shown], np.float64, spare),
        running=window(is_running[shown], np.bool_, spare),
        decoding=window(decoding[shown], np.bool_, spare),
        first_decoded=later,
        resident_limit=UNLIMITED if number % 4 < 2 else R + number % 3,
    )
