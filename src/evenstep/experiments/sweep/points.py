"""The points of a sweep: axes with their values, crossed into a grid or sampled by a Latin hypercube."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from evenstep.errors import InputError, check_known, nearest
from evenstep.measure.swept import is_number

_SPAN_KEYS = ("from", "to", "points", "scale")
_UNROUNDED = 1e12


@dataclass(frozen=True, slots=True)
class Axis:
    """A swept parameter, with listed values or a range of numbers."""

    name: str  # the parameter
    values: tuple[Any, ...] = ()  # its values, listed; empty if the range gives them
    low: float = 0.0  # lower end of the range, whole with `whole`; with `log` above 0
    high: float = 0.0  # upper end, above `low`, whole with `whole`
    points: int | None = None  # values of the range on a grid, ends included, >= 2; None: for a Latin hypercube only
    log: bool = False  # values of the range are spread evenly on a logarithmic scale
    whole: bool = False  # the parameter takes whole numbers only
    where: str = "sweep"  # file and line, for messages

    def grid(self) -> tuple[Any, ...]:
        """Every value on a grid: the listed ones in their order, or those of the range from low to high.

        `InputError` for a range without its number of points, or whole numbers that become equal when rounded.
        """
        if self.values:
            return self.values
        if self.points is None:
            raise InputError(self.where, f"{self.name}.points", "missing", "a number of points for a grid")
        inner = [self._between(i / (self.points - 1), self.high) for i in range(1, self.points - 1)]
        found = [self.low, *inner, self.high]
        found = [round(value) for value in found] if self.whole else found
        if len(set(found)) < len(found):
            expected = f"at most {len(set(found))} for whole numbers from {self.low:g} to {self.high:g}"
            raise InputError(self.where, f"{self.name}.points", self.points, expected)
        return tuple(found)

    def drawn(self, share: float) -> Any:
        """The value at a share of the axis, in [0, 1]: each listed value and each whole number has its own part of it.

        The parts of listed values are equal, and so are those of whole numbers, on the scale of the axis. If the parameter
        takes fractions, the value is a number of the range.
        """
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.whole:
            return max(round(self.low), min(math.floor(self._between(share, self.high + 1)), round(self.high)))
        return max(self.low, min(self._between(share, self.high), self.high))

    def _between(self, share: float, high: float) -> float:
        """The number at a share of the way from `low` to `high`, rounded to 12 digits, so that 0.1 + 0.2 reads 0.3.

        It keeps all its digits if it would leave the range when rounded, and above 10^12 if the parameter is whole.
        """
        if self.log:
            value = self.low * math.exp(share * math.log(high / self.low))
        else:
            value = self.low + share * (high - self.low)
        rounded = float(f"{value:.12g}")
        return value if (self.whole and abs(value) >= _UNROUNDED) or not self.low <= rounded <= high else rounded


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
    return _ranged(name, cast("Mapping[str, Any]", given), where, number is int)


def grid_points(axes: Sequence[Axis]) -> list[tuple[Any, ...]]:
    """Every combination of values, one tuple a point in the order of `axes`; the last axis varies fastest."""
    return list(itertools.product(*(axis.grid() for axis in axes)))


def latin_points(axes: Sequence[Axis], count: int, seed: int) -> list[tuple[Any, ...]]:
    """A Latin hypercube: each axis is cut into `count` >= 1 equal parts, and each part holds one point; `seed` is its key.

    Returns `count` tuples with a value for each axis, in the order of `axes` (`Axis.drawn`).

    Source: McKay, Beckman and Conover (1979), as `scipy.stats.qmc.LatinHypercube` draws it.
    """
    import numpy as np
    from scipy.stats import qmc

    sampler = cast("Any", qmc.LatinHypercube)(len(axes), seed=np.random.default_rng(seed))
    return [tuple(axis.drawn(float(u)) for axis, u in zip(axes, row, strict=True)) for row in sampler.random(count)]


def _ranged(name: str, given: Mapping[str, Any], where: str, whole: bool) -> Axis:
    field = f"over.{name}"
    for key in given:
        if key not in _SPAN_KEYS:
            raise InputError(where, f"{field}.{key}", given[key], "a known key", nearest(str(key), _SPAN_KEYS))
    for key in ("from", "to"):
        if not (is_number(given.get(key)) and abs(given[key]) <= sys.float_info.max):
            raise InputError(where, f"{field}.{key}", given.get(key, "missing"), "a finite number")
        if whole and not float(given[key]).is_integer():
            raise InputError(where, f"{field}.{key}", given[key], "a whole number", "The parameter takes no others.")
    low, high, scale = given["from"], given["to"], given.get("scale", "linear")
    check_known(where, f"{field}.scale", scale, ("linear", "log"))
    if not low < high:
        raise InputError(where, field, f"{low} to {high}", "a range that is not empty", "Its `to` lies above `from`.")
    if scale == "log" and low <= 0:
        raise InputError(where, f"{field}.from", low, "a number above 0 on a logarithmic scale")
    points = given.get("points")
    if points is not None and (type(points) is not int or points < 2):
        raise InputError(where, f"{field}.points", points, "an integer >= 2")
    return Axis(name, (), float(low), float(high), points, scale == "log", whole, where)
