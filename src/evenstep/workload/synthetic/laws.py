"""Laws of lengths: each turns uniform numbers into whole tokens by its quantile function.

Continuous laws are rounded to the nearest whole number and clipped to ``[low, high]``, so that what lies beyond an end
gathers on it. Any law with `quantile` will do; the names of these (`lognormal`, `pareto-tailed`, ...) are what YAML
calls them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8

HIGHEST = 10_000_000  # tokens; the upper end where none is given


class Law(Protocol):
    """float64[N] uniform numbers in [0, 1) to int64[N] tokens, >= 1."""

    def quantile(self, u: F8) -> I8: ...


def _rounded(values: F8, low: int, high: int) -> I8:
    return np.clip(np.rint(np.minimum(values, float(high))), low, high).astype(np.int64)


def _hold(law: object, *promises: tuple[str, bool, str]) -> None:
    """Raise for the first field that breaks its promise."""
    for field, kept, expected in promises:
        if not kept:
            raise InputError(type(law).__name__.lower(), field, getattr(law, field), expected)


def _hold_range(law: object, low: int, high: int) -> None:
    _hold(
        law,
        ("low", low >= 1, "a whole number >= 1"),
        ("high", low <= high <= HIGHEST, f"a whole number in {low}..{HIGHEST}"),
    )


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same number of tokens."""

    tokens: int

    def __post_init__(self) -> None:
        _hold(self, ("tokens", 1 <= self.tokens <= HIGHEST, f"a whole number in 1..{HIGHEST}"))

    def quantile(self, u: F8) -> I8:
        return np.full(u.size, self.tokens, np.int64)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every whole number from `low` to `high` alike."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)

    def quantile(self, u: F8) -> I8:
        return self.low + np.floor(u * (self.high - self.low + 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few lengths, each with its weight (alike when no weights are given)."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        weights = self.weights or (1.0,) * len(self.tokens)
        _hold(
            self,
            ("tokens", bool(self.tokens) and all(1 <= t <= HIGHEST for t in self.tokens),
             f"whole numbers in 1..{HIGHEST}"),
            ("weights", len(weights) == len(self.tokens) and all(w >= 0 for w in weights) and _positive(sum(weights)),
             "one weight >= 0 for each length, not all 0"),
        )  # fmt: skip

    def quantile(self, u: F8) -> I8:
        shares = np.cumsum(np.array(self.weights or (1.0,) * len(self.tokens)))
        index = np.searchsorted(shares / shares[-1], u, side="right")
        return np.array(self.tokens, np.int64)[np.minimum(index, len(self.tokens) - 1)]


@dataclass(frozen=True, slots=True)
class Lognormal:
    """``exp(mu + sigma Z)``; give `median` instead of `mu` if that is known."""

    sigma: float
    mu: float | None = None
    median: float | None = None
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)
        _hold(
            self,
            ("sigma", math.isfinite(self.sigma) and self.sigma >= 0, "a finite number >= 0"),
            ("mu", (self.mu is None) != (self.median is None), "mu or median, one of the two"),
            ("mu", self.mu is None or math.isfinite(self.mu), "a finite number"),
            ("median", self.median is None or _positive(self.median), "a finite number > 0"),
        )

    def quantile(self, u: F8) -> I8:
        from scipy.special import ndtri

        mu = math.log(self.median) if self.median is not None else self.mu
        exponent = np.minimum(mu + self.sigma * ndtri(u), 700.0)  # above, exp overflows; high clips it anyway
        return _rounded(np.exp(exponent), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma law of this shape and scale (mean = shape times scale)."""

    shape: float
    scale: float
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)
        _hold(
            self,
            ("shape", _positive(self.shape), "a finite number > 0"),
            ("scale", _positive(self.scale), "a finite number > 0"),
        )

    def quantile(self, u: F8) -> I8:
        from scipy.special import gammaincinv

        return _rounded(gammaincinv(self.shape, u) * self.scale, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Geometric:
    """Geometric law on 1, 2, ... of this mean, before clipping."""

    mean: float
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)
        _hold(self, ("mean", math.isfinite(self.mean) and self.mean >= 1, "a finite number >= 1"))

    def quantile(self, u: F8) -> I8:
        if self.mean == 1:
            return np.full(u.size, max(self.low, 1), np.int64)
        steps = np.log1p(-u) / math.log1p(-1 / self.mean)
        return np.clip(np.floor(steps) + 1, self.low, self.high).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Pareto:
    """Pareto law of this tail exponent; give its `mean` (alpha > 1) or its `minimum`, both before clipping."""

    alpha: float
    mean: float | None = None
    minimum: float | None = None
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)
        _hold(
            self,
            ("alpha", _positive(self.alpha), "a finite number > 0"),
            ("mean", (self.mean is None) != (self.minimum is None), "mean or minimum, one of the two"),
            (
                "mean",
                self.mean is None or (_positive(self.mean) and self.alpha > 1),
                "a finite number > 0, with alpha > 1",
            ),
            ("minimum", self.minimum is None or _positive(self.minimum), "a finite number > 0"),
        )

    def quantile(self, u: F8) -> I8:
        least = (
            self.minimum if self.minimum is not None else (self.mean or 0.0) * (self.alpha - 1) / self.alpha
        )
        return _rounded(least * (1 - u) ** (-1 / self.alpha), self.low, self.high)


@dataclass(frozen=True, slots=True)
class ParetoTailed:
    """A lognormal body whose top `tail_share` is a Pareto tail of exponent `alpha`, joined where the body ends."""

    sigma: float
    median: float
    alpha: float
    tail_share: float = 0.05
    low: int = 1
    high: int = HIGHEST

    def __post_init__(self) -> None:
        _hold_range(self, self.low, self.high)
        _hold(
            self,
            ("sigma", math.isfinite(self.sigma) and self.sigma >= 0, "a finite number >= 0"),
            ("median", _positive(self.median), "a finite number > 0"),
            ("alpha", _positive(self.alpha), "a finite number > 0"),
            ("tail_share", 0 < self.tail_share < 1, "a number in (0, 1)"),
        )

    def quantile(self, u: F8) -> I8:
        from scipy.special import ndtri

        body_share = 1 - self.tail_share
        body = self.median * np.exp(self.sigma * ndtri(np.minimum(u, body_share)))
        above = np.maximum(1 - u, 2.0**-54) / self.tail_share  # 1 where the tail begins, falling to 0
        tail = self.median * math.exp(self.sigma * float(ndtri(body_share))) * above ** (-1 / self.alpha)
        return _rounded(np.where(u < body_share, body, tail), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Bimodal:
    """The first law with probability `share`, else the second."""

    share: float
    first: Law
    second: Law

    def __post_init__(self) -> None:
        _hold(self, ("share", 0 <= self.share <= 1, "a number in [0, 1]"))

    def quantile(self, u: F8) -> I8:
        chosen = u < self.share
        values = np.zeros(u.size, np.int64)
        values[chosen] = self.first.quantile(u[chosen] / self.share) if self.share > 0 else 0
        values[~chosen] = (
            self.second.quantile((u[~chosen] - self.share) / (1 - self.share)) if self.share < 1 else 0
        )
        return values


@dataclass(frozen=True, slots=True)
class Capped:
    """Another law cut at `cap`, as ``max_tokens`` does: what would be longer ends at the cap."""

    of: Law
    cap: int

    def __post_init__(self) -> None:
        _hold(self, ("cap", 1 <= self.cap <= HIGHEST, f"a whole number in 1..{HIGHEST}"))

    def quantile(self, u: F8) -> I8:
        return np.minimum(self.of.quantile(u), self.cap)


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """The lengths of a trace, drawn anew: every recorded value alike.

    Args:
        values: int64[M], ascending.
    """

    values: I8

    def quantile(self, u: F8) -> I8:
        return self.values[np.minimum((u * self.values.size).astype(np.int64), self.values.size - 1)]


def empirical(values: I8) -> Empirical:
    """The law that draws these lengths anew."""
    if values.size == 0:
        raise InputError("fitted", "values", 0, "at least one length")
    return Empirical(np.sort(values))


def fitted_lognormal(values: I8) -> Lognormal:
    """The lognormal law of greatest likelihood for these lengths, clipped to their range."""
    if values.size == 0:
        raise InputError("fitted", "values", 0, "at least one length")
    logs = np.log(values)
    return Lognormal(
        sigma=float(logs.std()), mu=float(logs.mean()), low=int(values.min()), high=int(values.max())
    )
