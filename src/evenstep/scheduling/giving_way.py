"""Whoever holds memory goes on; where it does not suffice for an iteration, one after the other gives it up.

Tokens go to decodes before chunks of prefills, each in order of admission. `giving_way_kernel` is the compiled twin.
"""

from __future__ import annotations

from collections.abc import Callable

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import EngineView


def decodes_first(view: EngineView, requests: list[int]) -> list[int]:
    """Requests that decode, then those in the middle of their prefill."""
    return [k for k in requests if view.decoding[k]] + [k for k in requests if not view.decoding[k]]


def grow_or_give_way(filling: Filling, requests: list[int], key: Callable[[int], float]) -> list[int]:
    """Run requests that hold memory; until all that budget and seats allow fits, the one of the smallest key is evicted.

    The last one stays: alone it fits. Returns those that stay.
    """
    kept = list(requests)
    while len(kept) > 1 and needed(filling, kept) > filling.free:
        victim = min(kept, key=key)
        kept.remove(victim)
        filling.evict(victim)
    for request in decodes_first(filling.view, kept):
        filling.offer(request)
    return kept


def needed(filling: Filling, requests: list[int]) -> int:
    """KV tokens of memory that running them takes, as far as budget and seats go."""
    budget, total = filling.budget, 0
    for request in decodes_first(filling.view, requests)[: filling.seats]:
        tokens = min(int(filling.view.left[request]), budget)
        if tokens > 0:
            total += filling.grows(request, tokens)
            budget -= tokens
    return total
