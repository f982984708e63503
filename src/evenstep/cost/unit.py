"""The same batch time for every batch."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.cost.batch import Batch, check_numbers, layout
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class Unit:
    """Every iteration lasts `seconds_each`.

    Args:
        seconds_each: seconds of an iteration.

    Raises:
        InputError: a negative or non-finite value.

    Source: Interval scheduling sec. 2, where a round is the unit of time.
    """

    seconds_each: float = 1.0

    def __post_init__(self) -> None:
        check_numbers("unit", seconds_each=self.seconds_each)

    def seconds(self, batch: Batch) -> float:
        return self.seconds_each

    def table(self) -> F8:
        return layout(constant=self.seconds_each)


batch_law = Unit
