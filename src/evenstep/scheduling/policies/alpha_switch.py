"""Chooses between A_min and A_ell by the ratio of lower to upper bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.scheduling.intervals.learning import form_learned, learned, with_chance
from evenstep.scheduling.intervals.reserving import ReservedWork as Work
from evenstep.scheduling.intervals.reserving import form_reserved, lowest_then_highest
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.policies.a_ell import AEll
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView

#: Below this ratio of the bounds A_ell has the better competitive ratio on outputs of two lengths, above it A_min.
THRESHOLD: float = (3.0 - math.sqrt(5.0)) / 2.0


@dataclass(frozen=True, slots=True)
class AlphaSwitch(Ruled):
    """Runs as `AEll` where bounds are far apart, as `AMin` where they are close; `alpha` decides, not the requests.

    Args:
        alpha: ratio of the lower to the upper bound in the workload, 0 < alpha <= 1; below (3 - sqrt 5) / 2 it is A_ell.

    Raises:
        InputError: a ratio out of range.

    Source: Interval scheduling sec. 5.1, by its competitive ratios on outputs of two lengths.
    """

    alpha: float = 1.0
    believes: ClassVar[Belief] = "bounds"

    def __post_init__(self) -> None:
        check_range("alpha-switch", "a number above 0, at most 1", above=0, high=1, alpha=self.alpha)

    @property
    def order(self) -> QueueOrder:
        """The queue's order of the chosen policy: `AEll` if `alpha` is below `THRESHOLD`, else `AMin` with its defaults."""
        return AEll.order if self.alpha < THRESHOLD else AMin().order


@rule
def form_batch(view: RuleView, options: AlphaSwitch, work: Work) -> None:
    """Form the batch of the policy that `alpha` chooses: A_ell's (`form_reserved`) or A_min's (`form_learned`)."""
    if options.alpha < THRESHOLD:
        form_reserved(view, options, work, lowest_then_highest, True, 1.0)
    else:
        form_learned(view, options, work, learned, key_of, 1.0)


@part
def key_of(view: RuleView, options: AlphaSwitch, position: int) -> float:
    """A_min's eviction key, by lower bounds: the running request with the smallest key is evicted first."""
    row: int = view.running[position]
    return with_chance(view, row, learned(view, options, row))


policy = AlphaSwitch
