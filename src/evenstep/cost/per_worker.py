"""A linear step-time law for mixed hardware: every worker has its own speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.config import Numbers, numbers_of
from evenstep.cost.knots import Sync, check_seconds, check_sync, sync_seconds
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True)
class PerWorker:
    """``dt = overhead_s + sync + max_g per_token_s / speed[g] * L_g``.

    ``per-worker:speed=8*1/8*0.6`` makes the second half of sixteen workers slower.

    Args:
        speed: speed of each worker, above 0; 1 takes `per_token_s` a token, 0.5 twice as long. A shorter list is
            repeated over the fleet, so ``1/0.5`` alternates.
        overhead_s: C, seconds of a step at any load.
        per_token_s: t_l, seconds a resident KV token at speed 1.
        sync_s: synchronisation term: seconds, or pairs of group size and seconds (``8:0.0002/64:0.0009``).

    Raises:
        InputError: no speed, a speed not above 0, or seconds that are negative or not finite.

    Source: ours, for heterogeneous hardware; BF-IO sec. 6.2 has one speed for all.
    """

    speed: Numbers
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        speed = numbers_of("per-worker", "speed", self.speed)
        if not speed:
            raise InputError("per-worker", "speed", "no number", "a speed for one worker or more")
        for number, value in enumerate(speed):
            if value <= 0:
                raise InputError("per-worker", f"speed[{number}]", value, "a number above 0")
        for name in ("overhead_s", "per_token_s"):
            check_seconds("per-worker", name, getattr(self, name))
        object.__setattr__(self, "speed", speed)
        object.__setattr__(self, "sync_s", check_sync("per-worker", "sync_s", self.sync_s))

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8:
        """float64[G] seconds from float64[G] KV tokens; `running` and `longest` are ignored."""
        return self.table().local_seconds(load)

    def table(self) -> PiecewiseLinear:
        seconds = self.per_token_s / np.array(numbers_of("per-worker", "speed", self.speed))
        return PiecewiseLinear(np.array([0.0, 1.0]), np.stack([np.zeros(seconds.size), seconds], axis=1))

    def overhead_seconds(self, group_size: int) -> float:
        return self.overhead_s + sync_seconds("per-worker", self.sync_s, group_size)


law = PerWorker
