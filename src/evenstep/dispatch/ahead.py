"""What the running requests will weigh: asks the predictor about those that are due, and projects loads.

A running request is predicted at the first round after its first token, again when it has produced `refresh_every`
tokens since, and at once when it is still there at the token it was expected to leave at. What is due together is one
call, in order of (worker, request). A prediction counts when ``leaves >= gate``; otherwise, and when it says H steps or
more, the request does not leave inside the window: not before its next prediction (``refresh = "anchored"``), or H
tokens from now (``"literal"``).

Source: BalanceRoute App. C, as in the simulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.dispatch import ahead_kernel as kernel
from evenstep.dispatch.rows import Rows
from evenstep.dispatch.rows_layout import (
    CAP,
    COPIES,
    KEY,
    LEAVE,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    REQUEST,
    WORKER,
)
from evenstep.errors import PolicyError
from evenstep.predict.view import NOTHING, Active, Finished, Predictor, SurvivalCurve, counted_of
from evenstep.request import F8, I8


class Ahead:
    """Projections for a policy with a horizon.

    Args:
        predictor: who is asked.
        horizon: H, tokens ahead, >= 1.
        expects: whether the policy wants expected loads; without a survival curve it gets the others.
    """

    def __init__(self, predictor: Predictor, horizon: int, expects: bool) -> None:
        self.predictor: Any = predictor
        self.horizon = horizon
        self.every = int(getattr(predictor, "refresh_every", 16))
        self.gate = float(getattr(predictor, "gate", 0.5))
        self.is_literal = getattr(predictor, "refresh", "anchored") == "literal"
        self.expects = expects and isinstance(predictor, SurvivalCurve)
        self.projections: F8 = np.zeros((0, horizon + 1))
        self._curves: F8 = np.zeros((0, 0))
        self._ended: list[tuple[int, int, int, int]] = []
        self.asked, self.accepted = 0, 0
        self._resize(0, 0)

    def ended(self, request: int, prompt: int, output: int, key: int) -> None:
        """A request completed; the predictor learns of it before it is asked next."""
        self._ended.append((request, prompt, output, key))

    def counted(self) -> dict[str, int]:
        """What was asked, what passed the gate, and what the predictor counts itself."""
        own = {f"predictor_{name}": count for name, count in counted_of(self.predictor).items()}
        return {"predictions": self.asked, "predictions_accepted": self.accepted, **own}

    def project(self, rows: Rows, load: F8, running: I8, foreign: F8) -> F8:
        """float64[G, H+1], projected load of every worker; asks the predictor first.

        Args:
            load, running: float64[G] and int64[G], KV tokens and slots of running requests of ours.
            foreign: float64[G], KV tokens that are not ours.

        Raises:
            PolicyError: the predictor's answer has another shape than it has to.
        """
        self._resize(load.size, rows.ints.shape[1])
        self._refresh(rows)
        if self.expects:
            kernel.project_expected(rows.ints, rows.high, self._curves, foreign, self.projections)
        else:
            kernel.project_all(
                rows.ints, rows.high, load, running, foreign, self._counts, self._loads, self.projections
            )
        return self.projections

    def _resize(self, workers: int, rows: int) -> None:
        if self.projections.shape[0] != workers:
            self.projections = np.zeros((workers, self.horizon + 1))
            columns = 1 << self.horizon.bit_length()
            self._counts: I8 = np.zeros((workers, columns), np.int64)
            self._loads: F8 = np.zeros((workers, columns))
        if self.expects and self._curves.shape[0] != rows:
            kept = self._curves
            self._curves = np.ones((rows, self.horizon + self.every + 1))
            self._curves[: min(rows, len(kept))] = kept[:rows] if len(kept) else 1.0
        if not hasattr(self, "_due") or self._due.size != rows:
            self._due: I8 = np.zeros(rows, np.int64)

    def _refresh(self, rows: Rows) -> None:
        count = int(kernel.due(rows.ints, rows.high, self.every, self._curves, self._due))
        if not count:
            return
        if self._ended:
            columns = np.array(self._ended, np.int64).T.copy()
            self._ended = []
            self.predictor.learn(Finished(columns[0], columns[1], columns[2], columns[3]))
        ints, due = rows.ints, self._due[:count]
        due = due[np.lexsort((ints[REQUEST, due], ints[WORKER, due]))]
        age = ints[PRODUCED, due] // ints[COPIES, due]
        cap = ints[CAP, due]
        active = Active(
            request_id=ints[REQUEST, due],
            age=age,
            prompt_tokens=ints[PROMPT, due],
            prompt_key=ints[KEY, due],
            max_tokens=np.where(
                cap > 0, np.maximum(cap, age), 0
            ),  # an engine may count one token more than the client
            true_left=NOTHING,
        )
        self.asked += count
        ints[PREDICTED, due] = age
        if self.expects:
            self._keep_curves(due, active)
            return
        ints[LEAVE, due] = self._leaves(active, age)

    def _leaves(self, active: Active, age: I8) -> I8:
        prediction = self.predictor.predict(active, self.horizon)
        steps, leaves = prediction.steps_left, prediction.leaves
        if steps.shape != age.shape or leaves.shape != age.shape or not np.isfinite(steps).all():
            raise PolicyError(
                f"predictor {type(self.predictor).__name__} answered {steps.shape} steps and {leaves.shape} chances"
                f" for {age.size} requests; expected finite values, one a request"
            )
        passes = leaves >= self.gate
        self.accepted += int(np.count_nonzero(passes))
        expected = np.where(passes, np.clip(steps, 1.0, self.horizon), self.horizon)
        stays = (expected >= self.horizon) & (not self.is_literal)
        return np.where(stays, NEVER, age + np.ceil(expected).astype(np.int64))

    def _keep_curves(self, due: I8, active: Active) -> None:
        width = self._curves.shape[1]
        curve = self.predictor.curve(active, width - 1)
        if curve.shape != (due.size, width) or not (curve[:, 0] == 1.0).all() or not np.isfinite(curve).all():
            raise PolicyError(
                f"predictor {type(self.predictor).__name__} answered a curve of shape {curve.shape} for {due.size}"
                f" requests; expected ({due.size}, {width}), finite, with 1 in column 0"
            )
        self._curves[due] = curve
