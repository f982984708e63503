"""Batch time from the tokens that a batch runs: flat while the weights are being read, then rising."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.cost.batch import Batch, check_numbers, layout
from evenstep.request import F8

#: Fits of the paper: model and tensor parallel size -> (c in seconds, a in seconds a token, b0 in tokens).
FITS: dict[str, tuple[float, float, float]] = {
    "codellama-34b-tp1": (46.71e-3, 0.289e-3, 128.0),
    "codellama-34b-tp2": (23.47e-3, 0.145e-3, 96.0),
    "codellama-34b-tp4": (11.76e-3, 0.068e-3, 64.0),
    "llama-70b-tp2": (45.50e-3, 0.302e-3, 64.0),
    "llama-70b-tp4": (24.10e-3, 0.148e-3, 64.0),
}


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """``c + a * max(0, tokens - b0)`` seconds, for the tokens that a batch runs.

    Args:
        fit: a fit of the paper, which `c_s`, `a_s` and `b0` overrule if given.
        c_s: seconds of an iteration of up to `b0` tokens.
        a_s: seconds each token beyond them takes.
        b0: tokens.

    Raises:
        InputError: a negative or non-finite value.

    Source: Throughput-optimal eq. 2.3 and its table of fits (its text swaps the units of a and b0).
    """

    fit: Literal["codellama-34b-tp1", "codellama-34b-tp2", "codellama-34b-tp4", "llama-70b-tp2", "llama-70b-tp4"] = (
        "codellama-34b-tp2"
    )
    c_s: float | None = None
    a_s: float | None = None
    b0: float | None = None

    def __post_init__(self) -> None:
        for name, value in zip(("c_s", "a_s", "b0"), FITS[self.fit], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        c, a, b0 = self._numbers
        check_numbers("token-budget", c_s=c, a_s=a, b0=b0)

    @property
    def _numbers(self) -> tuple[float, float, float]:
        """(c, a, b0), after defaults were filled in."""
        return self.c_s, self.a_s, self.b0  # type: ignore[return-value]

    def seconds(self, batch: Batch) -> float:
        c, a, b0 = self._numbers
        return c + a * max(0.0, batch.tokens - b0)

    def table(self) -> F8:
        return layout(tokens=self.knots())

    def knots(self) -> F8:
        """float64[2, 3], tokens, and seconds at those: flat up to `b0`, then rising, as `layout` takes it."""
        c, a, b0 = self._numbers
        return np.array([[0.0 if b0 > 0 else -1.0, b0, b0 + 1.0], [c, c, c + a]])


batch_law = TokenBudget
