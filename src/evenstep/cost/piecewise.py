"""A step-time law of straight lines: a step lasts C plus the seconds its heaviest worker's load takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.cost.knots import OfLoad, Pairs, Sync, as_lines, line_knots, pairs_of
from evenstep.cost.view import PiecewiseLinear


@dataclass(frozen=True, slots=True)
class Piecewise(OfLoad):
    """``dt = overhead_s + sync_s + line(L*)``, L* the heaviest worker's KV tokens, the line going through the knots.

    ``piecewise:knots=0:0/40000:0.003/110000:0.012,overhead-s=0.0049``. Beyond the ends the first and last line go on.

    Args:
        knots: pairs of KV load in tokens and seconds without overhead; loads ascend, seconds never fall.

    Raises:
        InputError: a value outside the ranges above, fewer than two knots, or a first line below 0 at load 0.

    Source: ours; BF-IO sec. 6.2 has the linear case.
    """

    name: ClassVar[str] = "piecewise"
    knots: Pairs
    overhead_s: float = 0.0
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "knots", line_knots("piecewise", "knots", self.knots))
        self.check("overhead_s")

    def table(self) -> PiecewiseLinear:
        return as_lines(pairs_of("piecewise", "knots", self.knots))


law = Piecewise
