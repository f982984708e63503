"""The oracle: the true remaining length. For simulations only; tables mark its rows as impossible in a live system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.predict.view import Active, Finished, Prediction
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers the true remaining steps r, not clipped to H; a request with r = H has left at h = H.

    Source: BalanceRoute App. C (the upper bound of Table 3); spec reading: not clipped.
    """

    oracle: ClassVar[bool] = True

    def predict(self, active: Active, horizon: int) -> Prediction:
        """The true remaining steps, and 1 for each request that leaves within H steps, else 0."""
        left = active.true_left.astype(np.float64)
        return Prediction(steps_left=left, leaves=(left <= horizon).astype(np.float64))

    def curve(self, active: Active, horizon: int) -> F8:
        """1 for each step before the request leaves, 0 from then on, float64[N, H+1]."""
        return (active.true_left[:, None] > np.arange(horizon + 1)).astype(np.float64)

    def learn(self, finished: Finished) -> None:
        """Does nothing: the oracle has nothing to learn."""


predictor = Oracle
