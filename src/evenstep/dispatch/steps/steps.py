"""Steps of the barrier groups as their chunks show them: seconds, idle time at the barrier, the fitted law."""

from __future__ import annotations

import math
from array import array

import numpy as np

from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.fleet.mirror_layout import FOREIGN_LOAD, LOAD, RUNNING
from evenstep.dispatch.steps.step_fit import StepFit
from evenstep.dispatch.steps.steps_layout import (
    ENDED_S,
    FLOATS,
    LAST_S,
    NEW,
    NEWS,
    SECONDS,
    STEP_S,
    STEPS,
    TOGETHER,
)
from evenstep.measure.metrics import idle_share, imbalance_envelope, spread
from evenstep.request import F8


class Steps:
    """One group's steps.

    Args:
        members: places of its workers in the mirror.
    """

    def __init__(self, members: list[int]) -> None:
        self.members = members
        size = len(members)
        news = NEW * TOGETHER if size > 1 else 0  # a single worker never waits
        self.numbers = array("d", [0.0]) * (FLOATS + size + news)
        self.numbers[LAST_S] = self.numbers[SECONDS] = self.numbers[ENDED_S] = math.nan
        self._idle_share, self._idle_device_s = 0.0, 0.0  # of the evaluated steps
        self.fit = StepFit(self.numbers)

    @property
    def steps(self) -> int:
        """How many were counted."""
        return int(self.numbers[STEPS])

    @property
    def load(self) -> list[float]:
        """Of each worker in the last step counted, before its own tokens."""
        return self.numbers[FLOATS : FLOATS + len(self.members)].tolist()

    @property
    def step_s(self) -> float:
        """Seconds of the last step counted."""
        return self.numbers[STEP_S]

    @property
    def ended_s(self) -> float:
        """When that ended; nan before there is one."""
        return self.numbers[ENDED_S]

    @property
    def is_of_time(self) -> bool:
        """Whether idle shares count the fixed part of a step too; while there is no law they are of loads alone."""
        return self.fit.seconds_per_token > 0.0

    def completed(self, now_s: float) -> None:
        """All requests had delivered a step by then; its load is known when the next one begins (`begins`)."""
        numbers = self.numbers
        numbers[SECONDS], numbers[LAST_S] = now_s - numbers[LAST_S], now_s

    def begins(self, mirror: Mirror, worker: int = -1, newcomer: float = 0.0) -> None:
        """The next step begins: whose first token was late for the last one has joined it by now.

        Args:
            worker, newcomer: place of a worker, and KV tokens there of a request that begins with the next step.
        """
        seconds, self.numbers[SECONDS] = self.numbers[SECONDS], math.nan
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
        self.numbers[LAST_S] = math.nan

    def _count(self, load: list[float], seconds: float) -> None:
        numbers, size = self.numbers, len(load)
        numbers[STEPS] += 1.0
        numbers[STEP_S], numbers[ENDED_S] = seconds, numbers[LAST_S]
        heaviest, total = max(load), 0.0
        for place, one in enumerate(load):
            numbers[FLOATS + place] = one
            total += one
        self.fit.add(heaviest, seconds)
        if size == 1:  # no other worker to wait for
            return
        fixed = self.fit.overhead_s / self.fit.seconds_per_token if self.is_of_time else 0.0
        at = FLOATS + size + NEW * int(numbers[NEWS])
        numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3] = heaviest, total, fixed, seconds
        numbers[NEWS] += 1.0
        if numbers[NEWS] == TOGETHER:
            self._look()

    def _look(self) -> None:
        """See how much of the new steps was idle."""
        news = int(self.numbers[NEWS])
        if news:
            size = len(self.members)
            begin = FLOATS + size
            new = np.array(self.numbers[begin : begin + NEW * news]).reshape(news, NEW)
            heaviest, total, fixed, seconds = np.ascontiguousarray(new.T)
            share = idle_share(heaviest, total, np.full(len(total), float(size)), fixed)
            self._idle_share = float(share[-1])
            self._idle_device_s += size * float((share * seconds).sum())
            self.numbers[NEWS] = 0.0

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
            "fit_error": _known(fit.error) if fit.error < math.inf else None,
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
