"""Shortest remaining processing time, by predicted output, preempting between iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenstep.compiled import part
from evenstep.scheduling.batch import check_watermark
from evenstep.scheduling.by_key import KeyedWork as Work
from evenstep.scheduling.by_key import run_by_key
from evenstep.scheduling.order import QueueOrder, Statistic, share_of_bounds
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import Belief, RuleView


@dataclass(frozen=True, slots=True)
class Srpt(Ruled):
    """The request with the least predicted output left goes first, running or waiting; those that limits leave out pause.

    If memory is short, the running request with the largest predicted remainder is evicted. A request that outgrows its
    prediction counts as ever shorter, so it goes before all that have not.

    Args:
        statistic: the predicted length: the ``low`` or ``high`` bound, or their ``middle``; 0 without bounds.
        makes_room: evict running requests with more left for a waiting one that has less and lacks memory or a place
            (`resident_limit`).
        watermark: share of the memory that an admission leaves free while others run.

    Raises:
        InputError: a value out of range.

    Source: shortest remaining processing time with predictions, at the level of iterations.
    """

    believes: ClassVar[Belief] = "bounds"

    statistic: Statistic = "middle"
    makes_room: bool = True
    watermark: float = 0.01

    def __post_init__(self) -> None:
        check_watermark("srpt", self.watermark)

    @property
    def order(self) -> QueueOrder:
        """The queue's order: predicted output length minus tokens produced, smallest first."""
        low, high = share_of_bounds(self.statistic)
        return QueueOrder(low=low, high=high, produced=-1.0)


@rule
def form_batch(view: RuleView, options: Srpt, work: Work) -> None:
    """Form a batch by the predicted remainder of each output, the smallest first (`run_by_key`)."""
    run_by_key(view, options, work, key_of, options.makes_room, options.watermark)


@part
def key_of(view: RuleView, options: Any, row: int) -> float:
    """The key of `Srpt.order`: predicted output length minus tokens produced; negative once a request outgrows it."""
    low = 1.0 if options.statistic_low else 0.5 if options.statistic_middle else 0.0
    return low * view.output_low[row] + (1.0 - low) * view.output_high[row] - view.produced[row]


policy = Srpt
