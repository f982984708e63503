"""A_min's batch: lengths are believed to be their lower bounds, and who outgrows the memory gives way; reference.

`learning_kernel` is the compiled twin.
"""

from __future__ import annotations

from typing import Literal

from evenstep import streams
from evenstep.scheduling.feasible import Ahead
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.giving_way import grow_or_give_way
from evenstep.scheduling.reserving import admit
from evenstep.scheduling.view import BatchDecision, EngineView

#: The stream victims' chances are drawn from; another than the queue's, or the first admitted is the first evicted.
VICTIMS = "victims"

Reading = Literal["literal", "repaired"]
Victim = Literal["bound", "least-kv", "last"]


def bound(view: EngineView, request: int, reading: Reading) -> int:
    """The lower bound of a request as A_min knows it, tokens.

    Literally it becomes what the request had produced when it was evicted, even if that is less than was believed before;
    repaired, a known bound is never lowered. Either changes with evictions alone, not while the request runs.
    """
    low = int(view.output_low[request])
    if reading == "repaired":
        return max(low, int(view.reached[request]))
    return int(view.lost_at[request]) if view.evictions[request] else low


def victim_key(view: EngineView, request: int, reading: Reading, victim: Victim) -> float:
    """Who gives way first: the smallest; ties by chance, drawn once for a request and apart from its place in the queue."""
    if victim == "last":
        return -request
    chance = streams.uniform(view.seed, VICTIMS, int(view.request_id[request]))
    size = bound(view, request, reading) if victim == "bound" else int(view.resident[request])
    return size + chance


def batch_of_learned(view: EngineView, reading: Reading, victim: Victim, watermark: float) -> BatchDecision:
    """One batch of A_min.

    Args:
        view: the engine.
        reading: how an eviction changes the bound.
        victim: who gives way first.
        watermark: share of the memory that admissions leave free.
    """
    filling, ahead = Filling(view), Ahead(view)
    kept = grow_or_give_way(
        filling, list(range(filling.running)), lambda k: victim_key(view, k, reading, victim)
    )
    for request in kept:
        ahead.add(request, bound(view, request, reading))
    admit(filling, ahead, lambda seen, k: bound(seen, k, reading), 1.0 - watermark)
    return filling.decision()
