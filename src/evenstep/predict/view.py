"""The input and the answer of a predictor (BalanceRoute App. C). The host owns the predictor, never a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """N running requests that are due for a prediction.

    Args:
        request_id, age, prompt_tokens, prompt_key, max_tokens: int64[N]; `age` is tokens produced so far,
            `prompt_key` and `max_tokens` are 0 where unknown.
        true_left: int64[N], true remaining decode steps; only for a predictor with ``oracle = True``, else empty.
    """

    request_id: I8
    age: I8
    prompt_tokens: I8
    prompt_key: I8
    max_tokens: I8
    true_left: I8

    def take(self, rows: I8) -> Active:
        """These rows, in this order."""
        left = self.true_left[rows] if self.true_left.size else self.true_left
        return Active(
            self.request_id[rows],
            self.age[rows],
            self.prompt_tokens[rows],
            self.prompt_key[rows],
            self.max_tokens[rows],
            left,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The prediction for the next H steps of N requests.

    Args:
        steps_left: float64[N], ``E[min(r, H)]`` in steps, r = remaining steps; >= H means it does not leave
            inside the window. The oracle answers r itself, not clipped.
        leaves: float64[N], ``P(r <= H)``.
    """

    steps_left: F8
    leaves: F8


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """N requests that ended, in order of completion: int64[N] each."""

    request_id: I8
    prompt_tokens: I8
    output_tokens: I8
    prompt_key: I8

    def part(self, start: int, end: int) -> Finished:
        """Those from `start` to before `end`."""
        rows = slice(start, end)
        return Finished(self.request_id[rows], self.prompt_tokens[rows], self.output_tokens[rows], self.prompt_key[rows])


@runtime_checkable
class Predictor(Protocol):
    def predict(self, active: Active, horizon: int) -> Prediction: ...
    def learn(self, finished: Finished) -> None: ...


@runtime_checkable
class SurvivalCurve(Protocol):
    """A predictor that knows more than two numbers: the chance to be there still at every step of the window."""

    def curve(self, active: Active, horizon: int) -> F8:
        """float64[N, H+1], ``P(r > h)`` for h = 0..H: column 0 is 1, and no column is above the one before it."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """A predictor that keeps the requests it was asked about until they end, and has to hear of those that never will."""

    def gone(self, unfinished: Finished) -> None:
        """Requests left with `output_tokens` produced and more to come; they will not be asked about again."""
        ...


@runtime_checkable
class LearnsInParts(Protocol):
    """A predictor whose `learn` may take long, and that lets its host do other things in between.

    Asked before it has learned everything, it does the rest first: its answers are those after `learn`.
    """

    def begin(self, finished: Finished) -> None:
        """As `learn`, but the work is left to `advance`."""
        ...

    def advance(self, rows: int) -> int:
        """Go on learning until so many rows are looked at; how many of them are left: 0 if there is more to do."""
        ...


class Fit(Protocol):
    """A fit that is due, with everything it is made of."""

    def make(self) -> object:
        """Run the fit: a pure function of its input, in any thread; a second call returns at once."""
        ...


@runtime_checkable
class Fits(Protocol):
    """A predictor that fits models to what it learned, and lets its host choose when and where a fit runs.

    Its answers never run a fit; they change only when the host installs one. That is an event like any other, so runs
    repeat. `due` is the same object until it is installed, dropped, or replaced by the next due fit.
    """

    @property
    def due(self) -> Fit | None: ...
    def put_in(self) -> None:
        """Use the due fit from now on; it is run now if it has not run yet."""
        ...

    def give_up(self) -> None:
        """Go on without the fit that is due; it failed."""
        ...


def fit_now(predictor: object) -> None:
    """Run the due fit, if any, and install it: for a host that has time."""
    if isinstance(predictor, Fits) and predictor.due is not None:
        predictor.put_in()


def counted_of(predictor: object) -> dict[str, int]:
    """A predictor's own counts by name, for instance answers given without enough history."""
    return dict(getattr(predictor, "counted", {}))


def is_oracle(predictor: object) -> bool:
    """Whether the predictor is shown true lengths: unreachable live, and marked so in every table."""
    return bool(getattr(predictor, "oracle", False))


NOTHING = np.zeros(0, np.int64)
