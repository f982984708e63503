"""Steps of the barrier groups as their chunks show them: seconds, idle time at the barrier, the fitted law."""

from __future__ import annotations

import math

import numpy as np

from evenstep.dispatch.mirror import Mirror
from evenstep.dispatch.mirror_layout import FOREIGN_LOAD, LOAD, RUNNING
from evenstep.dispatch.step_fit import StepFit
from evenstep.measure.metrics import idle_share, imbalance_envelope, spread
from evenstep.request import F8


class Steps:
    """One group's steps.

    Args:
        members: places of its workers in the mirror.
    """

    def __init__(self, members: list[int]) -> None:
        self.members = np.array(members, np.int64)
        self.last_s = math.nan  # when its last step was complete; nan = nothing ran before
        self.steps = 0
        self.step_s = 0.0
        self.idle_share = 0.0  # of the last step
        self.idle_device_s = 0.0
        self.fit = StepFit()

    @property
    def is_of_time(self) -> bool:
        """Whether idle shares count the fixed part of a step too; before there is a fit they are of loads alone."""
        return self.fit.seconds_per_token > 0.0 and self.fit.overhead_s >= 0.0

    def completed(self, mirror: Mirror, now_s: float) -> None:
        """Every running worker has delivered a step."""
        seconds, self.last_s = now_s - self.last_s, now_s
        if not seconds > 0.0:  # the first step, or chunks of several steps in one read
            return
        self.steps += 1
        self.step_s = seconds
        if self.members.size == 1:  # nobody to wait for
            g, i, f = int(self.members[0]), mirror.i, mirror.f
            self.fit.add(f[LOAD][g] + f[FOREIGN_LOAD][g] - i[RUNNING][g], seconds)
            return
        load = self.loads(mirror) - mirror.columns.ints[RUNNING, self.members]  # before the step's own tokens
        heaviest, total = float(load.max()), float(load.sum())
        self.fit.add(heaviest, seconds)
        fixed = self.fit.overhead_s / self.fit.seconds_per_token if self.is_of_time else 0.0
        size = np.array([float(load.size)])
        self.idle_share = float(idle_share(np.array([heaviest]), np.array([total]), size, fixed)[0])
        self.idle_device_s += self.idle_share * load.size * seconds

    def stopped(self) -> None:
        """Nothing runs any more: the time to the next step is no step."""
        self.last_s = math.nan

    def loads(self, mirror: Mirror) -> F8:
        """float64[n], KV tokens of its workers."""
        floats = mirror.columns.floats
        return floats[LOAD, self.members] + floats[FOREIGN_LOAD, self.members]

    def values(self, mirror: Mirror) -> dict[str, object]:
        """Plain numbers of the group as it stands."""
        load = self.loads(mirror)
        heaviest, lightest, total = (np.array([float(x)]) for x in (load.max(), load.min(), load.sum()))
        fit = self.fit
        return {
            "balance_ratio": float(total[0] / load.size / heaviest[0]) if heaviest[0] > 0 else 1.0,
            "barrier_idle_ratio": self.idle_share,
            "ratios_are_of": "time" if self.is_of_time else "load",
            "imbalance_tokens": {
                "envelope": float(imbalance_envelope(heaviest, total, np.array([float(load.size)]))[0]),
                "spread": float(spread(heaviest, lightest)[0]),
            },
            "barrier_idle_device_seconds_total": self.idle_device_s,
            "steps_total": self.steps,
            "step_seconds": self.step_s,
            "overhead_seconds": _known(fit.overhead_s),
            "seconds_per_token": _known(fit.seconds_per_token),
            "fit_r_squared": _known(fit.r_squared),
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
