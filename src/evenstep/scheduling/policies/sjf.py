"""Shortest job first: the queue by predicted output, running requests as Sarathi runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.errors import check_range
from evenstep.scheduling.batch import Batch
from evenstep.scheduling.order import QueueOrder, Statistic, share_of_bounds
from evenstep.scheduling.policies.sarathi import decodes_first
from evenstep.scheduling.rules import Ruled, RuleView, rule
from evenstep.scheduling.view import Belief


@dataclass(frozen=True, slots=True)
class Sjf(Ruled):
    """Sarathi with a queue sorted by predicted output length, the shortest first; running ones keep Sarathi's order.

    Args:
        statistic: the predicted length: the ``low`` or ``high`` bound, or their ``middle``; 0 without bounds.
        prompt_weight: output tokens that one prompt token counts as in the order; 0 = the prompt does not count.

    Raises:
        InputError: a weight that is not a finite number.

    Source: shortest job first with predictions; Throughput-optimal sec. 2.3 lets a work-conserving policy take any order.
    """

    believes: ClassVar[Belief] = "bounds"

    statistic: Statistic = "middle"
    prompt_weight: float = 0.0

    def __post_init__(self) -> None:
        check_range("sjf", "a finite number", finite=True, prompt_weight=self.prompt_weight)

    @property
    def order(self) -> QueueOrder:
        """The queue's order: predicted output length plus `prompt_weight` for each prompt token, smallest first."""
        low, high = share_of_bounds(self.statistic)
        return QueueOrder(prompt=self.prompt_weight, low=low, high=high)


@rule
def form_batch(view: RuleView, options: Sjf, batch: Batch) -> None:
    """Form Sarathi's batch (`decodes_first`) from a queue that the host keeps in the policy's order."""
    decodes_first(view, batch)


policy = Sjf
