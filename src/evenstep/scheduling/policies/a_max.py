"""A_max: plans with the upper bound of every output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.intervals.reserving import form_reserved, highest
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class AMax(Ruled):
    """Admits as many requests as fit to their ends if every output is as long as its upper bound.

    While no output is longer than its bound, no request is evicted; otherwise the one admitted last is, if memory is short.
    The queue is in order of upper bounds, ties by chance; the first request that does not fit ends admissions. With equal
    prompts that is the largest set. A request without a bound is believed to fill the memory.

    Source: Interval scheduling, Algorithm 1; if requests differ in bounds, largest cardinality means the shortest upper
        bound first.
    """

    order: ClassVar[QueueOrder] = QueueOrder(high=1.0, chance=1.0)
    believes: ClassVar[Belief] = "bounds"


@rule
def form_batch(view: RuleView, options: AMax, work: Work) -> None:
    """Form a batch (`form_reserved`) in which requests as long as their upper bounds fit to their ends."""
    form_reserved(view, options, work, highest, False, 1.0)


policy = AMax
