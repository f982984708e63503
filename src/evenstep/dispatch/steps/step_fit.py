"""Live seconds: what a step of a barrier group costs, fitted as its chunks arrive."""

from __future__ import annotations

import math
from array import array

from evenstep.dispatch.steps.steps_layout import (
    ERROR,
    FEWEST,
    FIT_STEPS,
    FLOATS,
    KEEP,
    WEIGHT,
    XX,
    XY,
    YY,
    X,
    Y,
)


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
        """t_l, or nan until it is known well enough (`error`)."""
        return self._law()[0]

    @property
    def overhead_s(self) -> float:
        """C, or nan."""
        return self._law()[1]

    @property
    def r_squared(self) -> float:
        """Share of the variation that the law explains, or nan."""
        n = self._numbers
        if math.isnan(self._law()[0]) or not n[YY] > 0.0:
            return math.nan
        return min(1.0, n[XY] * n[XY] / (n[XX] * n[YY]))

    @property
    def error(self) -> float:
        """Two standard errors of the slope beside the slope; nan until there is something to fit, inf for a slope of 0.

        Above `steps_layout.ERROR`, or with a slope below 0, there is no law: loads that hardly differ, or steps that take
        their time for other reasons, say nothing of what a token costs.
        """
        n = self._numbers
        if n[FIT_STEPS] < FEWEST or not n[XX] > 0.0:
            return math.nan
        slope = n[XY] / n[XX]
        rest = max(0.0, n[YY] - slope * n[XY]) / (n[WEIGHT] - 2.0)
        return 2.0 * math.sqrt(rest / n[XX]) / abs(slope) if slope else math.inf

    def _law(self) -> tuple[float, float]:
        """Seconds a token and fixed seconds, both nan where there is no law; `deliveries_kernel` has the same lines."""
        n = self._numbers
        if n[FIT_STEPS] < FEWEST or not n[XX] > 0.0:
            return math.nan, math.nan
        slope = n[XY] / n[XX]
        fixed = n[Y] - slope * n[X]
        rest = max(0.0, n[YY] - slope * n[XY]) / (n[WEIGHT] - 2.0)
        of_slope = 4.0 * (rest / n[XX])
        of_fixed = 4.0 * (rest / n[WEIGHT]) + n[X] * n[X] * of_slope
        if not (slope > 0.0 and of_slope <= (ERROR * slope) * (ERROR * slope)):
            return math.nan, math.nan
        if of_fixed > (ERROR * n[Y]) * (ERROR * n[Y]) or (fixed < 0.0 and fixed * fixed > of_fixed):
            return math.nan, math.nan
        return slope, max(0.0, fixed)
