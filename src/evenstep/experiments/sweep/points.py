"""The points of a sweep: axes with their values, crossed into a grid or sampled by a Latin hypercube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from evenstep.errors import InputError, nearest
from evenstep.measure.swept import is_number

_SPAN_KEYS = ("from", "to", "points", "scale")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers, ``low < high``; if `log`, ``low > 0`` and values are spread evenly on a logarithmic scale.

    `points` is the number of values on a grid, ends included, >= 2; None is valid for a Latin hypercube only.
    """

    low: float
    high: float
    points: int | None = None
    log: bool = False

    def at(self, share: float) -> float:
        """The value at a share of the way from `low` to `high`, rounded to 12 digits, so that 0.1 + 0.2 reads 0.3."""
        if self.log:
            value = self.low * math.exp(share * math.log(self.high / self.low))
        else:
            value = self.low + share * (self.high - self.low)
        return float(f"{value:.12g}")


@dataclass(frozen=True, slots=True)
class Axis:
    """A swept parameter.

    Args:
        name: the parameter.
        values: its values, listed; empty if `span` gives them.
        span: a range of numbers instead.
        whole: True if the parameter takes whole numbers only.
        where: file and line, for messages.
    """

    name: str
    values: tuple[Any, ...] = ()
    span: Span | None = None
    whole: bool = False
    where: str = "sweep"

    def grid(self) -> tuple[Any, ...]:
        """Every value on a grid: the listed ones in their order, or those of the range from low to high.

        `InputError` for a range without its number of points, or whole numbers that become equal when rounded.
        """
        if self.span is None:
            return self.values
        points = self.span.points
        if points is None:
            raise InputError(self.where, f"{self.name}.points", "missing", "a number of points for a grid")
        found = [self._value(self.span, i / (points - 1)) for i in range(points)]
        if len(set(found)) < len(found):
            expected = f"at most {len(set(found))} for whole numbers from {self.span.low:g} to {self.span.high:g}"
            raise InputError(self.where, f"{self.name}.points", points, expected)
        return tuple(found)

    def at(self, share: float) -> Any:
        """The value at a share in [0, 1) of the axis: a number of the range, or a listed value, each for an equal part.

        A parameter of whole numbers gets the number rounded.
        """
        if self.span is None:
            return self.values[int(share * len(self.values))]
        return self._value(self.span, share)

    def _value(self, span: Span, share: float) -> float | int:
        value = span.at(share)
        return round(value) if self.whole else value


def axis_of(name: str, given: Any, where: str, *, number: type[int] | type[float] | None) -> Axis:
    """The axis described by a list of values, or by a mapping with ``from`` and ``to``, as the file has it.

    `number` is the parameter's type; None = it is not numeric and takes no range. `where` is for messages. `InputError` for
    an empty list or range, a duplicate value, an unknown key, or a range of a parameter without numbers.
    """
    field = f"over.{name}"
    if isinstance(given, list):
        values = cast("list[Any]", given)
        if not values:
            raise InputError(where, field, "[]", "at least one value")
        seen: list[Any] = []
        for value in values:
            if any(type(value) is type(other) and value == other for other in seen):
                raise InputError(where, field, value, "each value once")
            seen.append(value)
        return Axis(name, tuple(seen), where=where)
    if not isinstance(given, Mapping):
        expected = "a list of values, or a range such as {from: 32, to: 512, points: 5, scale: log}"
        raise InputError(where, field, given, expected)
    if number is None:
        raise InputError(where, field, dict(cast("Mapping[str, Any]", given)), "a list of values")
    return Axis(name, span=_span(field, cast("Mapping[str, Any]", given), where), whole=number is int, where=where)


def grid_points(axes: Sequence[Axis]) -> list[tuple[Any, ...]]:
    """Every combination of values, one tuple a point in the order of `axes`; the last axis varies fastest."""
    return list(itertools.product(*(axis.grid() for axis in axes)))


def latin_points(axes: Sequence[Axis], count: int, seed: int) -> list[tuple[Any, ...]]:
    """A Latin hypercube: each axis is cut into `count` >= 1 equal parts, and each part holds one point; `seed` is its key.

    Returns `count` tuples with a value for each axis, in the order of `axes`; listed values share their axis evenly.

    Source: McKay, Beckman and Conover (1979), as `scipy.stats.qmc.LatinHypercube` draws it.
    """
    import numpy as np
    from scipy.stats import qmc

    sampler = cast("Any", qmc.LatinHypercube)(len(axes), seed=np.random.default_rng(seed))
    return [tuple(axis.at(float(u)) for axis, u in zip(axes, row, strict=True)) for row in sampler.random(count)]


def _span(field: str, given: Mapping[str, Any], where: str) -> Span:
    for key in given:
        if key not in _SPAN_KEYS:
            raise InputError(where, f"{field}.{key}", given[key], "a known key", nearest(str(key), _SPAN_KEYS))
    for key in ("from", "to"):
        if not is_number(given.get(key)) or not math.isfinite(given[key]):
            raise InputError(where, f"{field}.{key}", given.get(key, "missing"), "a finite number")
    low, high, scale = given["from"], given["to"], given.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise InputError(where, f"{field}.scale", scale, "one of linear, log")
    if not low < high:
        raise InputError(where, field, f"{low} to {high}", "a range that is not empty", "Its `to` lies above `from`.")
    if scale == "log" and low <= 0:
        raise InputError(where, f"{field}.from", low, "a number above 0 on a logarithmic scale")
    points = given.get("points")
    if points is not None and (type(points) is not int or points < 2):
        raise InputError(where, f"{field}.points", points, "an integer >= 2")
    return Span(float(low), float(high), points, scale == "log")
