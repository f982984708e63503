"""Runs running requests, and evicts some of them if memory is too short for the next iteration.

Decodes get tokens before chunks of prefills, each in order of admission. The array `mark`, int64[R], says of each running
request that it may run (`GROWS`), pauses with what it holds (`PAUSES`) or is evicted (`LEAVES`).
"""

from __future__ import annotations

from evenstep.compiled import Floats, Ints, part
from evenstep.scheduling.batch import Batch, grows, offer, vacate
from evenstep.scheduling.view import RuleView

#: Marks of running requests: may run; pauses with what it holds; is evicted.
GROWS, PAUSES, LEAVES = range(3)


@part
def needed(view: RuleView, batch: Batch, mark: Ints) -> int:
    """KV tokens that requests with mark `GROWS` (may run) lack in order to run once as far as budget and seats allow."""
    budget, seats, total = batch.budget[0], batch.seats[0], 0
    for decoding in range(1, -1, -1):
        for position in range(view.running.size):
            row: int = view.running[position]
            if mark[position] != GROWS or view.decoding[row] != decoding:
                continue
            if seats == 0:
                return total
            seats -= 1
            tokens: int = min(view.left[row], budget)
            if tokens > 0:
                total += grows(view, row, tokens)
                budget -= tokens
    return total


@part
def grow(view: RuleView, batch: Batch, mark: Ints) -> None:
    """Run the requests marked `GROWS`, decodes first, as the budget allows; one that lacks memory pauses, still `GROWS`."""
    for decoding in range(1, -1, -1):
        for position in range(view.running.size):
            row: int = view.running[position]
            if mark[position] == GROWS and view.decoding[row] == decoding:
                offer(view, batch, row, position, 0)


@part
def leave(view: RuleView, batch: Batch, mark: Ints, position: int) -> None:
    """Evict a running request, and write `LEAVES` to ``mark[position]``. The batch must not hold tokens of the request."""
    mark[position] = LEAVES
    vacate(view, batch, position)


@part
def give_way(view: RuleView, batch: Batch, mark: Ints, key: Floats, kept: int) -> None:
    """Evict requests marked `GROWS`, smallest key first, until free memory holds what the others need, or one is left.

    They are marked `LEAVES`. `key` is float64[R], by position; `kept` is the number of requests marked `GROWS` on entry.
    """
    while kept > 1 and needed(view, batch, mark) > batch.free[0]:
        victim = -1
        for position in range(view.running.size):
            if mark[position] == GROWS and (victim < 0 or key[position] < key[victim]):
                victim = position
        leave(view, batch, mark, victim)
        kept -= 1
