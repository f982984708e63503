"""The statistic that a policy takes of a believed output length: a point of [output_low, output_high]."""

from __future__ import annotations

from typing import Literal

Statistic = Literal["low", "middle", "high"]


def weights(statistic: Statistic) -> tuple[float, float]:
    """Weights of the lower and the upper bound in a statistic of the believed output length."""
    return {"low": (1.0, 0.0), "middle": (0.5, 0.5), "high": (0.0, 1.0)}[statistic]
