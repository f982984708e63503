"""A step-time law of straight lines: a step lasts C plus the seconds its heaviest worker's load takes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.cost.knots import (
    Pairs,
    Sync,
    as_lines,
    check_seconds,
    check_sync,
    line_knots,
    pairs_of,
    sync_seconds,
)
from evenstep.cost.view import PiecewiseLinear
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True)
class Piecewise:
    """``dt = overhead_s + sync + line(L*)``, the line going through the knots.

    ``piecewise:knots=0:0/40000:0.003/110000:0.012,overhead-s=0.0049``. Beyond the ends the first and last line go on.

    Args:
        knots: pairs of KV load in tokens and seconds without overhead; loads ascend, seconds never fall.
        overhead_s: C, seconds of a step at any load.
        sync_s: synchronisation term: seconds, or pairs of group size and seconds (``8:0.0002/64:0.0009``).

    Raises:
        InputError: a value outside the ranges above.

    Source: ours; BF-IO sec. 6.2 has the linear case.
    """

    knots: Pairs
    overhead_s: float = 0.0
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "knots", line_knots("piecewise", "knots", self.knots))
        check_seconds("piecewise", "overhead_s", self.overhead_s)
        object.__setattr__(self, "sync_s", check_sync("piecewise", "sync_s", self.sync_s))

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8:
        """float64[G] seconds from float64[G] KV tokens; `running` and `longest` are ignored."""
        return self.table().local_seconds(load)

    def table(self) -> PiecewiseLinear:
        return as_lines(pairs_of("piecewise", "knots", self.knots))

    def overhead_seconds(self, group_size: int) -> float:
        return self.overhead_s + sync_seconds("piecewise", self.sync_s, group_size)


law = Piecewise
