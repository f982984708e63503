"""Steps of the barrier groups as their chunks show them: seconds, idle time at the barrier, the fitted law."""

from __future__ import annotations

import math

import numpy as np

from evenstep.dispatch.mirror import Mirror
from evenstep.dispatch.mirror_layout import FOREIGN_LOAD, LOAD, RUNNING
from evenstep.dispatch.step_fit import StepFit
from evenstep.measure.metrics import idle_share, imbalance_envelope, spread
from evenstep.request import F8

_TOGETHER = 256  # steps whose idle time is looked at together


class Steps:
    """One group's steps.

    Args:
        members: places of its workers in the mirror.
    """

    def __init__(self, members: list[int]) -> None:
        self.members = members
        self.last_s = math.nan  # when its last step was complete; nan = nothing ran before
        self.steps = 0
        self.step_s = 0.0
        self.load = [0.0] * len(members)  # of each worker in the last step counted, before its own tokens
        self.ended_s = math.nan  # of that step
        self._seconds = math.nan  # of a step that is complete and not counted yet
        self._idle_share, self._idle_device_s = 0.0, 0.0  # of the steps that were looked at
        self._new = list[
            tuple[float, float, float, float]
        ]()  # the others: heaviest, total, fixed part, seconds
        self.fit = StepFit()

    @property
    def is_of_time(self) -> bool:
        """Whether idle shares count the fixed part of a step too; before there is a fit they are of loads alone."""
        return self.fit.seconds_per_token > 0.0 and self.fit.overhead_s >= 0.0

    def completed(self, now_s: float) -> None:
        """Everybody had delivered a step by then; what it held is known when the next one begins (`begins`)."""
        self._seconds, self.last_s = now_s - self.last_s, now_s

    def begins(self, mirror: Mirror, worker: int = -1, newcomer: float = 0.0) -> None:
        """The next step begins: whose first token was late for the last one has joined it by now.

        Args:
            worker, newcomer: place of a worker, and KV tokens there of a request that begins with the next step.
        """
        seconds, self._seconds = self._seconds, math.nan
        if seconds > 0.0:  # neither the first step, nor chunks of several steps in one read
            load = self.loads_in_step(mirror)
            if newcomer:
                load[self.members.index(worker)] -= newcomer
            self._count(load, seconds)
        for g in self.members:
            mirror.left[g] = 0.0

    def stopped(self, mirror: Mirror) -> None:
        """Nothing runs any more: the time to the next step is no step."""
        self.begins(mirror)
        self.last_s = math.nan

    def _count(self, load: list[float], seconds: float) -> None:
        self.steps += 1
        self.step_s, self.load, self.ended_s = seconds, load, self.last_s
        heaviest = max(load)
        self.fit.add(heaviest, seconds)
        if len(load) == 1:  # nobody to wait for
            return
        fixed = self.fit.overhead_s / self.fit.seconds_per_token if self.is_of_time else 0.0
        self._new.append((heaviest, sum(load), fixed, seconds))
        if len(self._new) == _TOGETHER:
            self._look()

    def _look(self) -> None:
        """See how much of the new steps was idle."""
        if self._new:
            size = len(self.members)
            heaviest, total, fixed, seconds = np.array(self._new).T
            share = idle_share(heaviest, total, np.full(len(total), float(size)), fixed)
            self._idle_share = float(share[-1])
            self._idle_device_s += size * float((share * seconds).sum())
            self._new.clear()

    @property
    def idle_share(self) -> float:
        """Of the last step."""
        self._look()
        return self._idle_share

    @property
    def idle_device_s(self) -> float:
        """Of all steps and workers."""
        self._look()
        return self._idle_device_s

    def loads(self, mirror: Mirror) -> F8:
        """float64[n], KV tokens of its workers."""
        load, foreign = mirror.f[LOAD], mirror.f[FOREIGN_LOAD]
        return np.array([load[g] + foreign[g] for g in self.members])

    def loads_in_step(self, mirror: Mirror) -> list[float]:
        """KV tokens its workers held in the step they delivered last, before that step's own tokens."""
        load, foreign, running, left = mirror.f[LOAD], mirror.f[FOREIGN_LOAD], mirror.i[RUNNING], mirror.left
        return [load[g] + foreign[g] - running[g] + left[g] for g in self.members]

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
