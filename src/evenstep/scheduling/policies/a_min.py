"""A_min: plans with lower bounds of outputs, and learns better bounds from evictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.scheduling.intervals.learning import Reading, Victim, form_learned, learned, raised, with_chance
from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class AMin(Ruled):
    """Admits the lowest lower bound first; if memory runs out, evicts by `victim`.

    It admits while all requests, running and admitted, fit memory until each has produced its bound. Each request may have
    its own bounds (Algorithm 5). Ties in the queue and among victims are decided by two independent draws for each request.
    While requests keep arriving, those of high bounds wait.

    Args:
        reading: ``literal``: an eviction makes the bound what the request had produced, even where that lowers it;
            ``repaired``: a known bound is never lowered.
        victim: the request to evict first: the lowest ``bound`` (the paper), the one with the ``least-kv``, or the ``last``
            admitted.
        watermark: share of the memory, 0 <= watermark < 1, that admissions leave free while others run; 0 is the paper.

    Raises:
        InputError: a watermark out of range.

    Source: Interval scheduling, Algorithms 2 and 5, eq. 3 with our reading of requests beyond their bound (`feasible`).
    """

    reading: Reading = "literal"
    victim: Victim = "bound"
    watermark: float = 0.0
    believes: ClassVar[Belief] = "bounds"

    def __post_init__(self) -> None:
        check_range("a-min", "a number from 0, below 1", low=0, below=1, watermark=self.watermark)

    @property
    def order(self) -> QueueOrder:
        """The lowest bound first, in the chosen `reading`; ties by chance."""
        return ORDERS[self.reading]


@rule
def form_batch(view: RuleView, options: Any, work: Work) -> None:
    """Form a batch (`form_learned`) by bounds that evictions have changed, with a share of 1 - `watermark`."""
    form_learned(view, options, work, bound, key_of, 1.0 - options.watermark)


@part
def bound(view: RuleView, options: Any, row: int) -> int:
    """The lower bound of a request in tokens, in the chosen `reading`."""
    return raised(view, options, row) if options.reading_repaired else learned(view, options, row)


@part
def key_of(view: RuleView, options: Any, position: int) -> float:
    """Eviction key, the smallest goes first: bound or KV tokens held, plus a draw below 1; for ``last`` -`position`."""
    row: int = view.running[position]
    if options.victim_last:
        return -float(position)
    return with_chance(view, row, bound(view, options, row) if options.victim_bound else view.resident[row])


#: The queue's order for each `AMin.reading`.
ORDERS: dict[Reading, QueueOrder] = {
    "literal": QueueOrder(learned=1.0, chance=1.0),
    "repaired": QueueOrder(raised=1.0, chance=1.0),
}

policy = AMin
