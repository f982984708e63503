"""Live seconds: what a step of a barrier group costs, fitted as its chunks arrive."""

from __future__ import annotations

import math

_KEEP = 0.999  # weight of the past at each new step: about the last thousand steps count
_FEWEST = 50


class StepFit:
    """Least squares of the seconds between two steps on the group's envelope, forgetting slowly.

    ``seconds = overhead_s + seconds_per_token * envelope``, the linear law of the simulator.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._weight = self._x = self._y = self._xx = self._xy = self._yy = 0.0

    def add(self, envelope: float, seconds: float) -> None:
        """One step of a group: KV tokens of its heaviest worker, seconds since its last."""
        self.steps += 1
        self._weight = _KEEP * self._weight + 1.0
        # means and centred moments, so that large loads do not eat the digits of small differences
        share = 1.0 / self._weight
        dx, dy = envelope - self._x, seconds - self._y
        self._x += share * dx
        self._y += share * dy
        self._xx = _KEEP * self._xx + dx * (envelope - self._x)
        self._xy = _KEEP * self._xy + dx * (seconds - self._y)
        self._yy = _KEEP * self._yy + dy * (seconds - self._y)

    @property
    def seconds_per_token(self) -> float:
        """t_l, or nan until there is something to fit."""
        return self._xy / self._xx if self.steps >= _FEWEST and self._xx > 0.0 else math.nan

    @property
    def overhead_s(self) -> float:
        """C, or nan."""
        return self._y - self.seconds_per_token * self._x

    @property
    def r_squared(self) -> float:
        """Share of the variation that the law explains, or nan."""
        if self.steps < _FEWEST or not (self._xx > 0.0 and self._yy > 0.0):
            return math.nan
        return min(1.0, self._xy * self._xy / (self._xx * self._yy))
