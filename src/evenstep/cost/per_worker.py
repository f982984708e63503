"""A linear step-time law for mixed hardware: every worker has its own speed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.config.number import Numbers, numbers_of
from evenstep.cost.knots import OfLoad, Sync
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class PerWorker(OfLoad):
    """``dt = overhead_s + sync_s + max_g per_token_s / speed[g] * L_g``, L_g the KV tokens of worker g.

    ``per-worker:speed=8*1/8*0.6`` makes the second half of sixteen workers slower.

    Args:
        speed: speed of each worker, above 0; 1 takes `per_token_s` a token, 0.5 twice as long. A shorter list is
            repeated over the fleet, so ``1/0.5`` alternates.
        per_token_s: t_l, seconds a resident KV token at speed 1.

    Raises:
        InputError: no speed, a speed that is not finite and above 0, or seconds that are negative or not finite.

    Source: ours, for heterogeneous hardware; BF-IO sec. 6.2 has one speed for all.
    """

    name: ClassVar[str] = "per-worker"
    speed: Numbers
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        speed = numbers_of("per-worker", "speed", self.speed)
        self.check("overhead_s", "per_token_s")
        if not speed:
            raise InputError("per-worker", "speed", "no number", "a speed for one worker or more")
        for number, value in enumerate(speed):
            if value <= 0 or self.per_token_s / value == math.inf:
                raise InputError("per-worker", f"speed[{number}]", value, "a number above 0, with finite seconds a token")
        object.__setattr__(self, "speed", speed)

    def table(self) -> PiecewiseLinear:
        seconds = self.per_token_s / np.array(numbers_of("per-worker", "speed", self.speed))
        return PiecewiseLinear(np.array([0.0, 1.0]), np.stack([np.zeros(seconds.size), seconds], axis=1))


law = PerWorker
