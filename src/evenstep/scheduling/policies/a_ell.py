"""A_ell: plans with lower bounds; a request with a longer output goes to the back of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.intervals.reserving import form_reserved, lowest_then_highest
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class AEll(Ruled):
    """Admits in order of arrival by lower bounds of outputs; a request that is longer goes to the back, once.

    From then on it is believed to be as long as its upper bound. The first request that would not fit to its believed end
    ends admissions. Made for workloads with outputs of two lengths. While requests keep arriving, those at the back wait.

    Source: Interval scheduling, Algorithm 6. Our readings: a request is moved once. If all waiting requests and then it fit
        at once, it would come back in the same iteration; so it stays and keeps its memory.
    """

    order: ClassVar[QueueOrder] = QueueOrder(arrival=1.0, reached=1e6)
    believes: ClassVar[Belief] = "bounds"


@rule
def form_batch(view: RuleView, options: AEll, work: Work) -> None:
    """Form a batch (`form_reserved`) by lower bounds; a request that reaches its own moves once to the end of the queue."""
    form_reserved(view, options, work, lowest_then_highest, True, 1.0)


policy = AEll
