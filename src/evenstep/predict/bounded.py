"""Bounds another predictor's answers: no output is longer than the `max_tokens` that its client asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict import view
from evenstep.predict.view import Active, Finished, Prediction
from evenstep.predict.window import both_stages
from evenstep.request import F8, I8


@dataclass(eq=False)
class Bounded:
    """Asks another predictor, but lets every request leave by its own `max_tokens`, its cap.

    With m tokens left to the cap, ``P(r > h)`` is 0 from h = m on, and the other predictor's before. A request at its cap
    leaves in the coming step. A request without a cap is answered by the other predictor alone. `refresh_every`, `gate` and
    `refresh` are the other predictor's. ``of=oracle`` is asked every 16 tokens, whereas a simulator reads the true lengths
    of `oracle` itself at every decision.

    Args:
        of: the other predictor, with its options after a colon and slashes between them: ``survival:window=5000/drift=0``.

    Raises:
        InputError: `of` is unknown or invalid, is `bounded` itself, or has no survival curve.

    Source: BalanceRoute App. C, our reading: the cap is known when a request arrives.
    """

    of: str = "survival"

    def __post_init__(self) -> None:
        before, equals, after = self.of.partition("=")  # slashes before it are those of a path
        spec = names.parse(before + equals + after.replace("/", ","))
        if spec["name"] == "bounded":
            raise InputError("bounded", "of", self.of, "another predictor than itself")
        inner: Any = names.build("predict", spec)
        if not isinstance(inner, view.SurvivalCurve):
            raise InputError("bounded", "of", self.of, "a predictor with a method `curve(active, horizon)`")
        self._inner: Any = inner
        self._fits, self._keeps = isinstance(inner, view.Fits), isinstance(inner, view.Keeps)
        self._in_parts = isinstance(inner, view.LearnsInParts)
        self.oracle: bool = view.is_oracle(inner)
        self.refresh_every: int = getattr(inner, "refresh_every", 16)
        self.gate: float = getattr(inner, "gate", 0.5)
        self.refresh: str = getattr(inner, "refresh", "anchored")
        self._capped = 0
        self._twice: dict[str, int] = {}  # what the other predictor counted for curves of requests that `predict` had asked

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_twice": {}, **state})  # earlier states have no such counts

    @property
    def counted(self) -> Mapping[str, int]:
        """The other predictor's counts, and `capped`: how many answers were on a request whose cap is within the horizon.

        A request counts once an answer in both, although the other predictor is asked twice about a capped one.
        """
        own = {name: count - self._twice.get(name, 0) for name, count in view.counted_of(self._inner).items()}
        return {**own, "capped": self._capped}

    def predict(self, active: Active, horizon: int) -> Prediction:
        """The other predictor's answer; for requests whose cap is within the horizon, that of its curve cut at the cap.

        Raises an `InputError` if a request has produced more than its `max_tokens`.
        """
        left = _left(active)
        found: Prediction = self._inner.predict(active, horizon)
        near = np.flatnonzero(left <= horizon)
        if near.size == 0:
            return found
        self._capped += near.size
        before = view.counted_of(self._inner)
        stays = _cut(self._inner.curve(active.take(near), horizon), left[near])
        for name, count in view.counted_of(self._inner).items():
            self._twice[name] = self._twice.get(name, 0) + count - before.get(name, 0)
        steps_left, leaves = np.empty(near.size), np.empty(near.size)
        both_stages(stays, steps_left, leaves)
        all_steps, all_leaves = found.steps_left.copy(), found.leaves.copy()
        all_steps[near], all_leaves[near] = steps_left, leaves
        return Prediction(all_steps, all_leaves)

    def curve(self, active: Active, horizon: int) -> F8:
        """The other predictor's curve, float64[N, H+1], set to 0 from the cap on, but 1 at h = 0. Updates `capped`.

        Raises an `InputError` if a request has produced more than its `max_tokens`.
        """
        left = _left(active)
        near = int(np.count_nonzero(left <= horizon))
        self._capped += near
        stays = self._inner.curve(active, horizon)
        return _cut(stays, left) if near else stays

    def learn(self, finished: Finished) -> None:
        self._inner.learn(finished)

    def begin(self, finished: Finished) -> None:
        """Queue completions in the other predictor (`begin`); one that does not learn in parts learns them at once."""
        (self._inner.begin if self._in_parts else self._inner.learn)(finished)

    def advance(self, rows: int) -> int:
        """Call `advance` of the other predictor and return its result; if it does not learn in parts, return `rows`."""
        return self._inner.advance(rows) if self._in_parts else rows

    def gone(self, unfinished: Finished) -> None:
        if self._keeps:
            self._inner.gone(unfinished)

    @property
    def due(self) -> view.Fit | None:
        return self._inner.due if self._fits else None

    def put_in(self) -> None:
        """Call `put_in` of the other predictor, which must fit models (`due` is None otherwise)."""
        self._inner.put_in()

    def give_up(self) -> None:
        """Call `give_up` of the other predictor, which must fit models (`due` is None otherwise)."""
        self._inner.give_up()


_NO_CAP = 1 << 60


def _left(active: Active) -> I8:
    """Tokens left to each cap, int64[N], 2^60 without one; raises an `InputError` if a request has produced more."""
    left = np.where(active.max_tokens > 0, active.max_tokens - active.age, _NO_CAP)
    if left.size and left.min() < 0:
        row = int(np.argmin(left))
        where, expected = f"active: request {active.request_id[row]}", f"at least {active.age[row]}, what it has produced"
        raise InputError(where, "max_tokens", int(active.max_tokens[row]), expected, "0 means no cap.")
    return left


def _cut(stays: F8, left: I8) -> F8:
    """A copy of the curves, float64[N, H+1], with 0 from the cap on; column 0 stays, because the request runs now."""
    steps = np.arange(stays.shape[1])
    return np.where(steps[None, :] >= np.maximum(left, 1)[:, None], 0.0, stays)


predictor = Bounded
