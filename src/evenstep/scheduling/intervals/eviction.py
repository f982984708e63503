"""Runs the running requests; if memory is short for an iteration, evicts one after the other.

Tokens go to decodes before chunks of prefills, each in order of admission. Each running request has a mark.
"""

from __future__ import annotations

from evenstep.compiled import Floats, Ints, part
from evenstep.scheduling.batch import Batch, grows, offer, vacate
from evenstep.scheduling.view import RuleView

#: Marks: goes on; pauses with what it holds; gives up its memory.
GROWS, PAUSES, LEAVES = range(3)


@part
def needed(view: RuleView, batch: Batch, mark: Ints) -> int:
    """KV tokens of memory, beyond what they hold, that running requests marked `GROWS` need for the coming iteration.

    They run as many tokens as budget and seats allow, decodes first, each phase in order of admission.
    """
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
    """Run the running requests marked `GROWS`, decodes first, each phase in order of admission.

    Each runs as many tokens as the budget allows; one that does not fit the memory is skipped.
    """
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
    """Evict requests marked `GROWS`, the smallest key first, until what `needed` counts fits; the last one always stays.

    `key` is float64[R], by position; `kept` requests are marked `GROWS`.
    """
    while kept > 1 and needed(view, batch, mark) > batch.free[0]:
        victim = -1
        for position in range(view.running.size):
            if mark[position] == GROWS and (victim < 0 or key[position] < key[victim]):
                victim = position
        leave(view, batch, mark, victim)
        kept -= 1
