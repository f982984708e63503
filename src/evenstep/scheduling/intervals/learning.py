"""The batch of A_min: plans with lower bounds of output lengths, and evicts requests if memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from evenstep.compiled import part
from evenstep.draws import uniform
from evenstep.scheduling.intervals.eviction import GROWS, give_way, grow, needed
from evenstep.scheduling.intervals.feasible import base, put, remaining, sort
from evenstep.scheduling.intervals.reserving import ReservedWork, admit_believed
from evenstep.scheduling.view import RuleView
from evenstep.streams import stream_number

#: Random stream of eviction keys. With the queue's stream, the first admitted would be the first evicted.
VICTIMS = "victims"
_VICTIMS = stream_number(VICTIMS)

Reading = Literal["literal", "repaired"]
Victim = Literal["bound", "least-kv", "last"]


@part
def learned(view: RuleView, options: Any, row: int) -> int:
    """The lower bound of a request, tokens, read literally: `output_low`, or after an eviction the tokens it had then."""
    return view.lost_at[row] if view.evictions[row] > 0 else view.output_low[row]


@part
def raised(view: RuleView, options: Any, row: int) -> int:
    """The lower bound of a request, tokens, in our reading: `output_low`, or the most tokens at an eviction if more."""
    return max(view.output_low[row], view.reached[row])


@part
def with_chance(view: RuleView, row: int, size: int) -> float:
    """An eviction key: `size` plus a number in [0, 1), drawn once for each request, so that chance breaks ties."""
    return size + uniform(view.seed, _VICTIMS, view.request_id[row], 0)


@part
def form_learned(
    view: RuleView,
    options: Any,
    work: ReservedWork,
    believed: Callable[..., int],
    key_of: Callable[..., float],
    share: float,
) -> None:
    """Form one batch of A_min in `work`: evict until the running requests fit memory, run the rest, admit in queue order.

    Args:
        believed: ``(view, options, row)`` -> lower bound of a request, tokens; it changes only when that request is evicted.
        key_of: ``(view, options, position)`` -> eviction key of a running request; the smallest is evicted first.
        share: share of the memory that admissions may fill, 0 to 1. Admission stops at the first request with which memory
            would not suffice until it and all running and admitted ones have produced their bounds.
    """
    batch, runs = work.batch, view.running.size
    work.mark[:] = GROWS
    if runs > 1 and needed(view, batch, work.mark) > batch.free[0]:
        for position in range(runs):
            work.key[position] = key_of(view, options, position)
        give_way(view, batch, work.mark, work.key, runs)
    grow(view, batch, work.mark)
    if view.waiting.size == 0:
        return
    ahead, count = work.ahead, 0
    for position in range(runs):
        if work.mark[position] == GROWS:
            row: int = view.running[position]
            put(ahead, count, remaining(view, row, believed(view, options, row)), position, base(view, row))
            count += 1
    sort(ahead, count)
    admit_believed(view, options, work, believed, share, count)
