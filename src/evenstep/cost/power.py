"""The power law of an accelerator.

`watts` is the plain form. A compiled loop may use another order of operations; the two agree to 1e-6 relative, because
energy decides nothing and is outside the digest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.request import F8

#: Floating-point operations a generated token costs per model parameter (BF-IO D45).
FLOPS_PER_PARAMETER = 6.0


@dataclass(frozen=True, slots=True)
class Power:
    """``P(mfu) = idle_w + (max_w - idle_w) * min(1, mfu / mfu_sat) ** gamma``, mfu the share of `peak_flops` in use.

    Args:
        model_params: parameters of the served model (active ones, for a mixture of experts).
        peak_flops: peak of one worker, operations a second.
        idle_w: watts of a worker that waits.
        max_w: watts of a worker at or above saturation.
        mfu_sat: share of the peak at which power saturates, in (0, 1].
        gamma: exponent, in (0, 1]; below 1 power rises early.

    Raises:
        InputError: a value outside the ranges above, or ``max_w < idle_w``.

    Source: BF-IO eq. 11, D44-D46; capped at saturation, where the paper's formula would go on beyond `max_w`.
    """

    model_params: float = 8e9
    peak_flops: float = 312e12
    idle_w: float = 100.0
    max_w: float = 400.0
    mfu_sat: float = 0.45
    gamma: float = 0.7

    def __post_init__(self) -> None:
        expected = "a finite number above 0"
        check_range("power", expected, above=0, finite=True, model_params=self.model_params, peak_flops=self.peak_flops)
        check_range("power", expected, low=0, finite=True, idle_w=self.idle_w)
        check_range("power", expected, above=0, finite=True, max_w=self.max_w, mfu_sat=self.mfu_sat, gamma=self.gamma)
        check_range("power", "a number in (0, 1]", high=1, mfu_sat=self.mfu_sat, gamma=self.gamma)
        if self.max_w < self.idle_w:
            raise InputError("power", "max_w", self.max_w, f"at least idle_w, {self.idle_w:g}")

    @property
    def mfu_per_tokens_per_s(self) -> float:
        """Model FLOPs utilisation, as a share, of a worker that makes one token a second (BF-IO D45)."""
        return FLOPS_PER_PARAMETER * self.model_params / self.peak_flops


def watts(power: Power, tokens_per_s: F8) -> F8:
    """Watts of workers, float64 of any shape, from the tokens that each makes a second (BF-IO eq. 11, D44-D46)."""
    mfu = tokens_per_s * power.mfu_per_tokens_per_s
    return power.idle_w + (power.max_w - power.idle_w) * np.minimum(1.0, mfu / power.mfu_sat) ** power.gamma
