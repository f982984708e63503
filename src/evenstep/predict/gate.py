"""How a host asks its predictor: the gate for predicted departures, checks of the answers, and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import F2, INT, declared
from evenstep.errors import PolicyError
from evenstep.predict.view import Active, Prediction, counted_of
from evenstep.request import F8
from evenstep.wording import counted


class Gate:
    """Asks a predictor about running requests, checks the answers, and counts them.

    A prediction counts if ``leaves >= gate``. If it does not, or its expected steps are H or more, the request does not
    leave within the horizon. It stays until its next prediction (``refresh = "anchored"``), or leaves H steps from now
    (``"literal"``). Curves are used without a gate. Predictors count tokens; the answers here count steps of
    `tokens_per_step` output tokens.

    Args:
        predictor: the predictor to ask; its attributes `gate` (default 0.5) and `refresh` (default anchored) are read once.
        horizon: H, steps.

    Source: BalanceRoute App. C.
    """

    def __init__(self, predictor: Any, horizon: int) -> None:
        self.predictor, self.horizon = predictor, horizon
        self._least = float(getattr(predictor, "gate", 0.5))
        self._is_literal = getattr(predictor, "refresh", "anchored") == "literal"
        self._asked, self._accepted = 0, 0

    def steps_left(self, active: Active, tokens_per_step: int = 1) -> F8:
        """Expected steps until each request leaves, float64[N], 1..H.

        A request that does not leave within the horizon gets -1, or H if the predictor's `refresh` is ``literal``. Raises a
        `PolicyError` as `prediction_of` does.
        """
        answer, count = prediction_of(self.predictor, active, self.horizon * tokens_per_step), active.age.size
        steps, passes = answer.steps_left / tokens_per_step, answer.leaves >= self._least
        self._asked += count
        self._accepted += int(np.count_nonzero(passes))
        expected = np.where(passes, np.clip(steps, 1.0, self.horizon), self.horizon)
        return expected if self._is_literal else np.where(expected >= self.horizon, -1.0, expected)

    def curves(self, active: Active, ahead: int, tokens_per_step: int = 1) -> F8:
        """Probability that each request still runs after 0, 1, ... `ahead` steps, float64[N, ahead + 1].

        Raises a `PolicyError` as `curves_of` does.
        """
        by_token = curves_of(self.predictor, active, ahead * tokens_per_step)
        self._asked += len(by_token)
        self._accepted += len(by_token)
        return by_token[:, ::tokens_per_step]

    def counted(self) -> dict[str, int]:
        """Counts since the start: `predictions`, `predictions_accepted`, and the predictor's own as ``predictor_<name>``.

        A prediction is accepted if it passes the gate; a curve always is.
        """
        own = {f"predictor_{name}": count for name, count in counted_of(self.predictor).items()}
        return {"predictions": self._asked, "predictions_accepted": self._accepted, **own}


def prediction_of(predictor: Any, active: Active, horizon: int) -> Prediction:
    """The answer of a predictor on N requests, as float64[N] each.

    Raises a `PolicyError` if the answer is none, has the wrong shape, or steps that are not finite, or chances outside 0..1.
    """
    answer, name = predictor.predict(active, horizon), type(predictor).__name__
    try:
        steps, leaves = np.asarray(answer.steps_left, np.float64), np.asarray(answer.leaves, np.float64)
    except (AttributeError, TypeError, ValueError) as error:
        said = f"predictor {name} answered {type(answer).__name__}; expected a Prediction, with steps_left and leaves"
        raise PolicyError(f"{said} as arrays of numbers") from error
    count = active.age.size
    if steps.shape != (count,) or leaves.shape != (count,) or not np.isfinite(steps).all() or not _are_chances(leaves):
        raise PolicyError(
            f"predictor {name} answered {steps.shape} steps and {leaves.shape} chances"
            f" for {counted(count, 'request')}; expected finite values, one a request, and chances from 0 to 1"
        )
    return Prediction(steps, leaves)


def _are_chances(leaves: F8) -> bool:
    """True if all numbers are from 0 to 1, but for what rounding adds; nan is not."""
    return bool(((leaves >= -1e-6) & (leaves <= 1.0 + 1e-6)).all())


def curves_of(predictor: Any, active: Active, horizon: int) -> F8:
    """The curves of a predictor on N requests, float64[N, H + 1].

    Raises a `PolicyError` if the answer has the wrong shape, is not finite, or does not begin with 1.
    """
    answer, wanted = predictor.curve(active, horizon), (active.age.size, horizon + 1)
    try:
        curves = np.ascontiguousarray(answer, np.float64)
    except (TypeError, ValueError):  # not of numbers
        curves = np.zeros(0)
    if curves.shape != wanted or not _are_curves(curves):
        raise PolicyError(
            f"predictor {type(predictor).__name__} answered a curve of shape {curves.shape} for {wanted[0]}"
            f" requests; expected {wanted}, finite, with 1 in column 0"
        )
    return curves


@declared(None if INT is None else INT(F2))
def are_curves(answered: F8) -> int:
    """1 if every row of float64[N, K] is finite and begins with 1, but for rounding, else 0."""
    for i in range(answered.shape[0]):
        total = 0.0
        for h in range(answered.shape[1]):
            total += abs(answered[i, h])
        if abs(answered[i, 0] - 1.0) > 1e-9 or not total < np.inf:  # nan counts as well
            return 0
    return 1


_are_curves = compiled.entry(are_curves)
