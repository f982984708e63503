"""Which statistic of a believed output length a policy takes: a point of [output_low, output_high]."""

from __future__ import annotations

from typing import Literal

Statistic = Literal["low", "middle", "high"]


def weights(statistic: Statistic) -> tuple[float, float]:
    """What the lower and the upper bound count in it."""
    return {"low": (1.0, 0.0), "middle": (0.5, 0.5), "high": (0.0, 1.0)}[statistic]
