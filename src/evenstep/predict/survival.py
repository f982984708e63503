"""Empirical survival: predicts from the recent outputs that were longer than a request's age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.errors import check_range
from evenstep.predict.history import History
from evenstep.predict.view import Active, Finished, Prediction
from evenstep.request import F8


@dataclass(eq=False)
class Survival:
    """Predicts from the lengths of the latest requests, and uses nothing of the request but its age.

    With F their distribution function, a request of age a leaves within H steps with probability p. If it does, it stays mu
    steps more, and is expected to run in ``p*mu + (1-p)*H`` of the next H steps, at least 1. Here ``p = (F(a+H) - F(a)) / (1
    - F(a))``, and ``mu = mean(o - a | a < o <= a+H)`` over the output lengths o.

    Args:
        window: latest requests that are remembered, or four times the running ones where that is more.
        minimum: least number of ended requests longer than its age to predict a request. With fewer it is assumed to stay (H
            steps, probability 0), and counted as `too_short`.
        drift: Kolmogorov-Smirnov distance between the older and the recent half of the window, over ``sqrt(1/n + 1/m)``,
            above which the older half is forgotten; 0 = never. See `History`.
        running: number of ended requests from which on running ones count too, as longer than their age (Kaplan-Meier). So
            long ones are not missed while they run. 0 = never, as in the paper.
        refresh_every: tokens after which a running request is predicted anew.
        gate: least probability of leaving at which a prediction counts; below it a request is assumed to stay.
        refresh: assumption about a request below the gate until it is predicted anew. ``anchored`` = it stays. ``literal`` =
            it leaves in H steps, as the paper reads word by word.

    Source: BalanceRoute App. C.2.1; windows, drift and running requests are ours; the paper refits periodically.
    """

    window: int = 10_000
    minimum: int = 1
    drift: float = 2.0
    running: int = 10
    refresh_every: int = 16
    gate: float = 0.5
    refresh: Literal["anchored", "literal"] = "anchored"

    def __post_init__(self) -> None:
        check_refresh("survival", self.refresh_every, self.gate)
        check_window("survival", self.window, self.minimum, self.drift, self.running)
        self._history = History(self.window, self.drift, self.running, self.refresh_every)
        self._too_short = 0

    @property
    def history(self) -> History:
        """The history of lengths that predictions come from."""
        return self._history

    @property
    def counted(self) -> Mapping[str, int]:
        """Counts: `too_short`, answers without enough history; `drifts`, changes of traffic; `learned`, lengths kept."""
        history = self._history
        return {"too_short": self._too_short, "drifts": history.drifts, "learned": len(history)}

    def predict(self, active: Active, horizon: int) -> Prediction:
        """`steps_left` and `leaves` by age; H and 0 where the history is too short. Notes that the requests run."""
        self._history.asked(active.request_id, active.age)
        prediction, silent = self._history.leaving(active.age, horizon, self.minimum)
        self._too_short += int(np.count_nonzero(silent))
        return prediction

    def curve(self, active: Active, horizon: int) -> F8:
        """Survival curves by age, float64[N, H+1]; 1 where the history is too short. Notes that the requests run."""
        self._history.asked(active.request_id, active.age)
        stays, silent = self._history.curve(active.age, horizon, self.minimum)
        self._too_short += int(np.count_nonzero(silent))
        return stays

    def learn(self, finished: Finished) -> None:
        self._history.learn(finished.request_id, finished.output_tokens)

    def begin(self, finished: Finished) -> None:
        self._history.begin(finished.request_id, finished.output_tokens)

    def advance(self, rows: int) -> int:
        return self._history.advance(rows)

    def gone(self, unfinished: Finished) -> None:
        self._history.gone(unfinished.request_id, unfinished.output_tokens)


def check_refresh(where: str, refresh_every: int, gate: float) -> None:
    """Check options of the predictor `where`; raises an `InputError` for `refresh_every` below 1, or a gate outside 0..1."""
    check_range(where, "an integer >= 1", low=1, refresh_every=refresh_every)
    check_range(where, "a number in 0..1", low=0, high=1, gate=gate)


def check_window(where: str, window: int, minimum: int, drift: float, running: int) -> None:
    """Check the options that all predictors with a window share; `where` is the predictor's name in errors.

    Raises an `InputError` for a window below 1, a minimum outside 1..window, or a drift or `running` below 0.
    """
    check_range(where, "an integer >= 1", low=1, window=window)
    check_range(where, f"an integer in 1..window, {window}", low=1, high=window, minimum=minimum)
    check_range(where, "an integer >= 0", low=0, running=running)
    check_range(where, "a number >= 0", low=0, drift=drift)


predictor = Survival
