"""Laws of token lengths: each maps uniform numbers to whole tokens by its quantile function.

Continuous laws are rounded to the nearest whole number and clipped to ``[low, high]``: values beyond an end become that end.
Any object with `quantile` is a law; YAML names these `lognormal`, `pareto-tailed` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8

HIGHEST = 10_000_000  # tokens; the default of `high`
#: The name of a heavy tail in messages.
INFINITE = "an infinite mean"
#: A mean is taken over a grid. Parts of each half of it, each half as wide as the one before; points of a part.
_HALVINGS, _POINTS = 30, 512


class Law(Protocol):
    """A law of token lengths: `quantile` turns float64[N] uniform numbers in [0, 1) into int64[N] tokens, >= 1."""

    def quantile(self, u: F8) -> I8: ...


def _rounded(values: F8, low: int, high: int) -> I8:
    """int64[N], values rounded to the nearest whole number and clipped to ``low..high``."""
    return np.clip(np.rint(np.minimum(values, float(high))), low, high).astype(np.int64)


def _normal(u: F8 | float) -> F8:
    """float64[N], the quantiles of a standard normal law; at 0 finite, so that times a sigma of 0 it is 0."""
    from scipy.special import ndtri

    return np.maximum(ndtri(u), -1e100)


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


_POSITIVE = (_is_positive, "a finite number > 0")
#: Field -> check of its value, and what is expected, in every law that has the field.
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "low": (lambda value: value >= 1, "a whole number >= 1"),
    "sigma": (lambda value: math.isfinite(value) and value >= 0, "a finite number >= 0"),
    "mean": _POSITIVE,
    "median": _POSITIVE,
    "shape": _POSITIVE,
    "scale": _POSITIVE,
    "alpha": _POSITIVE,
    "minimum": _POSITIVE,
    "tail_share": (lambda value: 0 < value < 1, "a number in (0, 1)"),
    "share": (lambda value: 0 <= value <= 1, "a number in [0, 1]"),
    "cap": (lambda value: 1 <= value <= HIGHEST, f"a whole number in 1..{HIGHEST}"),
}
#: Fields in tokens; a value above `HIGHEST` would cut every length to it.
_SIZES = ("mean", "median", "minimum", "scale")
#: A field, True if its value is good, and what is expected.
Promise = tuple[str, bool, str]


class _Checked:
    """Base of laws that check their fields when they are made; the first bad one, `low` before all, is an `InputError`."""

    __slots__ = ()

    def __post_init__(self) -> None:
        order = ["low", "high", *(f.name for f in fields(self))]  # type: ignore[arg-type]
        own = {name: value for name in order if (value := getattr(self, name, None)) is not None}
        promises = [*self._promises()]
        promises += [(name, kept(own[name]), expected) for name, (kept, expected) in _FIELDS.items() if name in own]
        if "low" in own:
            expected = f"a whole number in {own['low']}..{HIGHEST}"
            promises.append(("high", own["low"] <= own["high"] <= HIGHEST, expected))
        promises += [(name, not own[name] > HIGHEST, f"a number up to {HIGHEST}") for name in _SIZES if name in own]
        for name, kept, expected in sorted(promises, key=lambda one: order.index(one[0])):
            if not kept:
                raise InputError(type(self).__name__.lower(), name, own.get(name), expected)

    def _promises(self) -> tuple[Promise, ...]:
        """Further checks of this law, before those of `_FIELDS`: field, True if its value is good, what is expected."""
        return ()


@dataclass(frozen=True, slots=True)
class Constant(_Checked):
    """Always the same number of tokens."""

    tokens: int

    def _promises(self) -> tuple[Promise, ...]:
        return (("tokens", 1 <= self.tokens <= HIGHEST, f"a whole number in 1..{HIGHEST}"),)

    def quantile(self, u: F8) -> I8:
        return np.full(u.size, self.tokens, np.int64)


@dataclass(frozen=True, slots=True)
class Uniform(_Checked):
    """Every whole number from `low` to `high`, both included, is equally likely."""

    low: int
    high: int

    def quantile(self, u: F8) -> I8:
        return self.low + np.floor(u * (self.high - self.low + 1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Choice(_Checked):
    """One of a few lengths, in proportion to their weights; equally likely when no weights are given.

    Weights are relative: one for each length, >= 0, not all 0.
    """

    tokens: tuple[int, ...]
    weights: tuple[float, ...] = ()

    def _promises(self) -> tuple[Promise, ...]:
        weights = self.weights or (1.0,) * len(self.tokens)
        are_good = len(weights) == len(self.tokens) and all(w >= 0 for w in weights)
        are_lengths = bool(self.tokens) and all(1 <= t <= HIGHEST for t in self.tokens)
        return (
            ("tokens", are_lengths, f"whole numbers in 1..{HIGHEST}"),
            ("weights", are_good and _is_positive(sum(weights)), "one weight >= 0 for each length, not all 0"),
        )

    def quantile(self, u: F8) -> I8:
        shares = np.cumsum(np.array(self.weights or (1.0,) * len(self.tokens)))
        index = np.searchsorted(shares / shares[-1], u, side="right")
        return np.array(self.tokens, np.int64)[np.minimum(index, len(self.tokens) - 1)]


@dataclass(frozen=True, slots=True)
class Lognormal(_Checked):
    """``exp(mu + sigma Z)``, Z standard normal; give either `mu` or the `median`, exp(mu)."""

    sigma: float
    mu: float | None = None
    median: float | None = None
    low: int = 1
    high: int = HIGHEST

    def _promises(self) -> tuple[Promise, ...]:
        return (
            ("mu", (self.mu is None) != (self.median is None), "mu or median, one of the two"),
            ("mu", self.mu is None or math.isfinite(self.mu), "a finite number"),
        )

    def quantile(self, u: F8) -> I8:
        mu = math.log(self.median) if self.median is not None else (self.mu or 0.0)
        exponent = np.minimum(mu + self.sigma * _normal(u), 700.0)  # above, exp overflows; high clips it anyway
        return _rounded(np.exp(exponent), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Gamma(_Checked):
    """Gamma law of this shape and scale; its mean is shape times scale, before rounding and clipping."""

    shape: float
    scale: float
    low: int = 1
    high: int = HIGHEST

    def quantile(self, u: F8) -> I8:
        from scipy.special import gammaincinv

        return _rounded(gammaincinv(self.shape, u) * self.scale, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Geometric(_Checked):
    """Geometric law on 1, 2, ... of this mean, then clipped to ``low..high``."""

    mean: float
    low: int = 1
    high: int = HIGHEST

    def _promises(self) -> tuple[Promise, ...]:
        return (("mean", math.isfinite(self.mean) and self.mean >= 1, "a finite number >= 1"),)

    def quantile(self, u: F8) -> I8:
        if self.mean == 1:
            return np.full(u.size, max(self.low, 1), np.int64)
        steps = np.log1p(-u) / math.log1p(-1 / self.mean)
        return np.clip(np.floor(steps) + 1, self.low, self.high).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Poisson(_Checked):
    """Poisson law of this mean, then clipped to ``low..high``; so a length of 0 tokens becomes `low`."""

    mean: float
    low: int = 1
    high: int = HIGHEST

    def quantile(self, u: F8) -> I8:
        from scipy.special import pdtr

        most = int(self.mean + 10 * math.sqrt(self.mean)) + 20
        return np.clip(np.searchsorted(pdtr(np.arange(most), self.mean), u, side="right"), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Pareto(_Checked):
    """Pareto law of this tail exponent; give its `mean` (alpha > 1) or its `minimum`, both before clipping.

    ``P(length > x) = (minimum / x) ** alpha``, in tokens.
    """

    alpha: float
    mean: float | None = None
    minimum: float | None = None
    low: int = 1
    high: int = HIGHEST

    def _promises(self) -> tuple[Promise, ...]:
        has_mean = self.mean is None or not 0 < self.alpha <= 1
        return (
            ("alpha", has_mean, f"a number > 1 where `mean` is given: up to 1 the law has {INFINITE}"),
            ("mean", (self.mean is None) != (self.minimum is None), "mean or minimum, one of the two"),
        )

    def quantile(self, u: F8) -> I8:
        least = self.minimum if self.minimum is not None else (self.mean or 0.0) * (self.alpha - 1) / self.alpha
        with np.errstate(over="ignore"):  # `high` clips what overflows
            return _rounded(least * (1 - u) ** (-1 / self.alpha), self.low, self.high)


@dataclass(frozen=True, slots=True)
class ParetoTailed(_Checked):
    """A lognormal body whose top `tail_share` is a Pareto tail of exponent `alpha`, joined where the body ends.

    `sigma` and `median` (tokens) are those of the uncut lognormal; `tail_share` is in (0, 1).
    """

    sigma: float
    median: float
    alpha: float
    tail_share: float = 0.05
    low: int = 1
    high: int = HIGHEST

    def quantile(self, u: F8) -> I8:
        body_share = 1 - self.tail_share
        above = np.maximum(1 - u, 2.0**-54) / self.tail_share  # 1 where the tail begins, falling to 0
        with np.errstate(over="ignore"):  # `high` clips what overflows
            body = self.median * np.exp(self.sigma * _normal(np.minimum(u, body_share)))
            ends = self.median * math.exp(min(self.sigma * float(_normal(body_share)), 600.0))
            return _rounded(np.where(u < body_share, body, ends * above ** (-1 / self.alpha)), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Bimodal(_Checked):
    """A mixture: the law `first` with probability `share`, a number from 0 to 1, else the law `second`."""

    share: float
    first: Law
    second: Law

    def quantile(self, u: F8) -> I8:
        chosen = u < self.share
        values = np.zeros(u.size, np.int64)
        values[chosen] = self.first.quantile(u[chosen] / self.share)
        values[~chosen] = self.second.quantile((u[~chosen] - self.share) / (1 - self.share))
        return values


@dataclass(frozen=True, slots=True)
class Capped(_Checked):
    """Another law cut at `cap`, as ``max_tokens`` does: longer lengths become `cap`."""

    of: Law
    cap: int

    def quantile(self, u: F8) -> I8:
        return np.minimum(self.of.quantile(u), self.cap)


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """The lengths of a trace, drawn anew: each of `values`, int64[M] ascending, M >= 1, is equally likely."""

    values: I8

    def quantile(self, u: F8) -> I8:
        return self.values[np.minimum((u * self.values.size).astype(np.int64), self.values.size - 1)]


def fitted_lognormal(values: I8) -> Lognormal:
    """The lognormal law of maximum likelihood for these lengths, int64[M], M >= 1, clipped to their range."""
    logs = np.log(values)
    return Lognormal(sigma=float(logs.std()), mu=float(logs.mean()), low=int(values.min()), high=int(values.max()))


@lru_cache(maxsize=1024)
def mean(law: Law) -> float:
    """Mean tokens of a law after rounding and clipping; the result is cached.

    It is exact for `Constant` and `Choice`, and the weighted mean of a mixture's parts. Else it is right to about 0.1 %.
    """
    if isinstance(law, Bimodal):
        return _mixed(law, law.first, law.second)
    if isinstance(law, Capped) and isinstance(law.of, Bimodal):
        return _mixed(law.of, Capped(law.of.first, law.cap), Capped(law.of.second, law.cap))
    of, cap = (law.of, law.cap) if isinstance(law, Capped) else (law, HIGHEST)
    if isinstance(of, Constant | Choice):
        return float(np.average(np.minimum(of.tokens, cap), weights=getattr(of, "weights", None) or None))
    widths = 2.0 ** -np.array([*range(2, _HALVINGS), _HALVINGS - 1])  # from the middle to an end
    ends = 0.5 + np.cumsum(widths)
    u = (ends[:, None] - widths[:, None] * (np.arange(_POINTS) + 0.5) / _POINTS).ravel()
    return float((_parts(law, u) + _parts(law, 1 - u)) @ widths / _POINTS)


def _mixed(law: Bimodal, first: Law, second: Law) -> float:
    """The mean of a mixture of two laws with the probabilities of `law`."""
    parts = ((law.share, first), (1 - law.share, second))
    return sum(share * mean(part) for share, part in parts)


def _parts(law: Law, u: F8) -> F8:
    """float64[K], the sum of a law's tokens over each of K parts of `u`; a part has `_POINTS` numbers."""
    return law.quantile(u).reshape(-1, _POINTS).sum(axis=1).astype(np.float64)


def check_mean(where: str, law: Law, place: str = "") -> None:
    """Raise an `InputError` if a law has an infinite mean: its own or a part's `alpha` is at most 1, with `high` unset.

    Args:
        where: what the error calls the file or flag.
        law: any law; of a `Bimodal`, each part with a share above 0 is checked. A `Capped` law always passes.
        place: the place of the law in the file, for instance ``synthetic.output``.
    """
    dot = f"{place}." if place else ""
    if isinstance(law, Bimodal):
        for name, share in (("first", law.share), ("second", 1 - law.share)):
            if share > 0:
                check_mean(where, getattr(law, name), f"{dot}{name}")
    alpha = getattr(law, "alpha", None)
    if alpha is not None and alpha <= 1 and getattr(law, "high", 0) == HIGHEST:
        hint = f"This law has {INFINITE}: no rate above 0 is stable. Cut it off with high=N."
        raise InputError(where, f"{dot}alpha", alpha, "a number > 1", hint)
