"""The input and the answer of a predictor (BalanceRoute App. C). The host owns the predictor, never a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """N running requests that are due for a prediction; int64[N] each.

    Args:
        age, prompt_tokens: tokens produced so far, and tokens of the prompt.
        prompt_key, max_tokens: 0 where unknown.
        true_left: true remaining decode steps (one a token), for a predictor with ``oracle = True``; for others empty.
    """

    request_id: I8
    age: I8
    prompt_tokens: I8
    prompt_key: I8
    max_tokens: I8
    true_left: I8

    def take(self, rows: I8) -> Active:
        """A copy with the requests in these rows, in this order."""
        known = self.request_id, self.age, self.prompt_tokens, self.prompt_key, self.max_tokens
        left = self.true_left[rows] if self.true_left.size else self.true_left
        return Active(*(column[rows] for column in known), true_left=left)


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The prediction for the next H steps of N requests; r is a request's remaining steps.

    Args:
        steps_left: float64[N], ``E[min(r, H)]`` in steps; >= H means it does not leave within the horizon. The oracle
            answers r itself, not clipped.
        leaves: float64[N], ``P(r <= H)``, 0 to 1.
    """

    steps_left: F8
    leaves: F8


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """N requests that ended or went away, in order; int64[N] each.

    Lengths are tokens; `output_tokens` is all that each copy of the request produced. `prompt_key` is 0 where unknown.
    """

    request_id: I8
    prompt_tokens: I8
    output_tokens: I8
    prompt_key: I8

    def part(self, start: int, end: int) -> Finished:
        """The requests from row `start` to `end` - 1, as views of the same arrays."""
        rows = slice(start, end)
        return Finished(self.request_id[rows], self.prompt_tokens[rows], self.output_tokens[rows], self.prompt_key[rows])


@runtime_checkable
class Predictor(Protocol):
    """Predicts when running requests leave within `horizon` decode steps, and learns from requests that ended.

    A host reports each completed request with output once to `learn` (or `begin`), in order. These attributes are optional:
    `gate` and `refresh` (see `Gate`), `refresh_every` (tokens between two predictions of a request, default 16), `oracle`
    (see `is_oracle`), `counted` (see `counted_of`).
    """

    def predict(self, active: Active, horizon: int) -> Prediction: ...
    def learn(self, finished: Finished) -> None: ...


@runtime_checkable
class SurvivalCurve(Protocol):
    """A predictor that gives a whole curve: the probability of still running at every step of the horizon."""

    def curve(self, active: Active, horizon: int) -> F8:
        """``P(r > h)``, r = remaining steps, h = 0..H: float64[N, H+1]. Column 0 is 1; no column exceeds the one before."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """A predictor that keeps requests it was asked about until they end.

    Its host reports those that leave unfinished to `gone`, and completed ones to `learn` or `begin`.
    """

    def gone(self, unfinished: Finished) -> None:
        """Note requests that left unfinished, with `output_tokens` produced so far; their outputs would have been longer."""
        ...


@runtime_checkable
class LearnsInParts(Protocol):
    """A predictor whose learning may take long, so that its host can do other work in between.

    If asked for a prediction before it has learned everything, it first does the rest.
    """

    def begin(self, finished: Finished) -> None:
        """Queue completions for learning; `advance` does the work."""
        ...

    def advance(self, rows: int) -> int:
        """Continue learning, in the order of `begin`, until `rows` rows are processed.

        A row is about the work of one completion. Returns 0 if there is more to learn. Otherwise it returns the rows that
        remain of `rows`, but 1 at least.
        """
        ...


class Fit(Protocol):
    """A fit that is due, with all its input."""

    def make(self) -> object:
        """Run the fit and return its models: a pure function of its input, in any thread; a second call returns at once."""
        ...


@runtime_checkable
class Fits(Protocol):
    """A predictor that fits models to what it learned, and lets its host choose when and where a fit runs.

    Its predictions never run a fit, and use new models only once the host calls `put_in`. So runs repeat. `due` is None, or
    a fit: the same object until it is put in, dropped, or replaced by the next due fit.
    """

    @property
    def due(self) -> Fit | None: ...
    def put_in(self) -> None:
        """Use the due fit's models from now on, so that no fit is due; runs the fit if the host has not."""
        ...

    def give_up(self) -> None:
        """Drop the due fit, because it failed, and keep the present models."""
        ...


def fit_now(predictor: object) -> None:
    """Run the due fit of a predictor, if there is one, and use its models."""
    if isinstance(predictor, Fits) and predictor.due is not None:
        predictor.put_in()


def counted_of(predictor: object) -> dict[str, int]:
    """A predictor's own counts so far, by name, for instance answers without enough history; {} if it counts nothing."""
    return dict(getattr(predictor, "counted", {}))


def is_oracle(predictor: object) -> bool:
    """True if the predictor gets true lengths (attribute `oracle`), which a live host cannot have. Tables mark it."""
    return bool(getattr(predictor, "oracle", False))


NOTHING = np.zeros(0, np.int64)
