"""Live seconds: what a step of a barrier group costs, fitted as its chunks arrive."""

from __future__ import annotations

import math
from array import array

from evenstep.dispatch.steps_layout import FEWEST, FIT_STEPS, FLOATS, KEEP, WEIGHT, XX, XY, YY, X, Y


class StepFit:
    """Least squares of the seconds between two steps on the group's envelope, forgetting slowly.

    ``seconds = overhead_s + seconds_per_token * envelope``, the linear law of the simulator.

    Args:
        numbers: where its sums are kept, at the places of `steps_layout`; None = in an array of its own.
    """

    def __init__(self, numbers: array[float] | None = None) -> None:
        self._numbers = numbers if numbers is not None else array("d", [0.0]) * FLOATS

    def add(self, envelope: float, seconds: float) -> None:
        """One step of a group: KV tokens of its heaviest worker, seconds since its last."""
        n = self._numbers
        n[FIT_STEPS] += 1.0
        n[WEIGHT] = KEEP * n[WEIGHT] + 1.0
        # means and centred moments, so that large loads do not eat the digits of small differences
        share = 1.0 / n[WEIGHT]
        dx, dy = envelope - n[X], seconds - n[Y]
        n[X] += share * dx
        n[Y] += share * dy
        n[XX] = KEEP * n[XX] + dx * (envelope - n[X])
        n[XY] = KEEP * n[XY] + dx * (seconds - n[Y])
        n[YY] = KEEP * n[YY] + dy * (seconds - n[Y])

    @property
    def seconds_per_token(self) -> float:
        """t_l, or nan until there is something to fit."""
        n = self._numbers
        return n[XY] / n[XX] if n[FIT_STEPS] >= FEWEST and n[XX] > 0.0 else math.nan

    @property
    def overhead_s(self) -> float:
        """C, or nan."""
        return self._numbers[Y] - self.seconds_per_token * self._numbers[X]

    @property
    def r_squared(self) -> float:
        """Share of the variation that the law explains, or nan."""
        n = self._numbers
        if n[FIT_STEPS] < FEWEST or not (n[XX] > 0.0 and n[YY] > 0.0):
            return math.nan
        return min(1.0, n[XY] * n[XY] / (n[XX] * n[YY]))
