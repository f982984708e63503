"""A_random: admits by true lengths in a random order, for analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.errors import check_range
from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.intervals.reserving import form_reserved, highest
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class ARandom(Ruled):
    """Admits requests in a random order, fixed by the seed, while they fit to their ends, knowing every output length.

    For analysis only: a simulator shows it the true lengths instead of ``bounds``.

    Args:
        memory_scale: share of the memory, 0 < memory_scale <= 1, that admissions fill while others run: A_random(alpha M).

    Raises:
        InputError: a share out of range.

    Source: Interval scheduling, Algorithm 4.
    """

    memory_scale: float = 1.0
    order: ClassVar[QueueOrder] = QueueOrder(chance=1.0)
    believes: ClassVar[Belief] = "truth"

    def __post_init__(self) -> None:
        check_range("a-random", "a number above 0, at most 1", above=0, high=1, memory_scale=self.memory_scale)


@rule
def form_batch(view: RuleView, options: ARandom, work: Work) -> None:
    """Form a batch (`form_reserved`) by true lengths, shown as upper bounds, with `memory_scale`."""
    form_reserved(view, options, work, highest, False, options.memory_scale)


policy = ARandom
