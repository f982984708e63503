"""Shared parts of the step-time laws: pairs of numbers written as text, and the synchronisation term.

Arguments `where` and `field` name law and field in errors. On a command line commas separate options, so pairs are written
with slashes: ``0:0/100000:0.011``. In YAML and Python the same values are lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np

from evenstep.config.number import finite
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8

#: Pairs of numbers, or text such as ``0:0/100000:0.011``.
Pairs: TypeAlias = tuple[tuple[float, float], ...] | str
#: Seconds for any group, or pairs of group size and seconds.
Sync: TypeAlias = float | Pairs


def pairs_of(where: str, field: str, value: Pairs) -> tuple[tuple[float, float], ...]:
    """Pairs of finite numbers, in order, from pairs or text such as ``0:0/100000:0.011``; else an `InputError`."""
    try:
        pairs = [part.split(":") for part in value.split("/")] if isinstance(value, str) else [*value]
        are_pairs = all(len(pair) == 2 for pair in pairs)
    except TypeError:  # numbers or None in place of pairs
        pairs, are_pairs = [], False
    if not are_pairs:
        raise InputError(where, field, value, "pairs written x:y/x:y")
    return tuple((finite(where, field, x), finite(where, field, y)) for x, y in pairs)


class OfLoad:
    """Base of step-time laws made of an overhead, a synchronisation term, and straight lines over the load.

    A law is a dataclass with these fields and a `name` for errors. It defines `table`, and calls `check` when it is made.

    Args:
        overhead_s: C, seconds of a step at any load.
        sync_s: synchronisation term: seconds, or pairs of group size and seconds (``8:0.0002/64:0.0009``), with straight
            lines between them.
    """

    __slots__ = ()
    name: ClassVar[str]
    overhead_s: Any
    sync_s: Any

    def check(self, *seconds: str) -> None:
        """Parse `sync_s` (`Sync`) in place; InputError if bad, or a field named in `seconds` is not finite and >= 0."""
        for field in seconds:
            check_seconds(self.name, field, getattr(self, field))
        object.__setattr__(self, "sync_s", check_sync(self.name, "sync_s", self.sync_s))

    def table(self) -> PiecewiseLinear:
        """The straight lines of the law; each law defines its own."""
        raise NotImplementedError

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8:
        """float64[G], seconds of each worker by its KV tokens `load`, without overhead; only `unequal` reads the others."""
        table = self.table()
        return table.local_seconds(table.effective_load(load, running, longest))

    def overhead_seconds(self, group_size: int) -> float:
        """C and the synchronisation term; an `InputError` for a group smaller or larger than every size in its pairs."""
        if not isinstance(self.sync_s, tuple):
            return self.overhead_s + self.sync_s
        sizes, seconds = np.array(self.sync_s, np.float64).T
        if not sizes[0] <= group_size <= sizes[-1]:
            hint = "Give sync_s for its size, too."
            raise InputError(self.name, "group size", group_size, f"a group of {sizes[0]:g} to {sizes[-1]:g} workers", hint)
        return self.overhead_s + float(np.interp(group_size, sizes, seconds))


def check_seconds(where: str, field: str, value: float) -> None:
    """Raise an `InputError` for a value that is not a finite number of seconds >= 0."""
    check_range(where, "a finite number of seconds >= 0", low=0, finite=True, **{field: value})


def check_knots(where: str, field: str, knots: Sequence[tuple[float, float]]) -> None:
    """Raise an `InputError` that names the first bad knot of a line; `knots` are pairs of KV load in tokens and seconds.

    There must be two knots or more, with loads that ascend and seconds that never fall, both >= 0.
    """
    if len(knots) < 2:
        raise InputError(where, field, f"{len(knots)} knots", "two knots or more", "Give load:seconds pairs.")
    if knots[0][0] < 0 or knots[0][1] < 0:
        raise InputError(where, field, _shown(knots[0]), "a load and seconds >= 0")
    for before, after in pairwise(knots):
        if after[0] <= before[0]:
            raise InputError(where, field, _shown(after), f"a load above {before[0]:g}", "Order knots by load.")
        if after[1] < before[1]:
            raise InputError(
                where, field, _shown(after), f"at least {before[1]:g} seconds", "More load never takes less time."
            )


def line_knots(where: str, field: str, value: Pairs) -> tuple[tuple[float, float], ...]:
    """The parsed knots (`pairs_of`) of a line over KV load, after a check that they form a law from load 0 on.

    Raises:
        InputError: not pairs of finite numbers, a knot that `check_knots` refuses, or a first line below 0 at load 0.
    """
    knots = pairs_of(where, field, value)
    check_knots(where, field, knots)
    (x0, y0), (x1, y1) = knots[:2]
    if y0 * (x1 - x0) < x0 * (y1 - y0):
        raise InputError(where, field, f"{x0:g}:{y0:g}", "a first line not below 0 at load 0", "Begin with 0:0.")
    return knots


def check_sync(where: str, field: str, sync: Sync) -> Sync:
    """The synchronisation term, parsed if it is text: seconds for any group, or pairs of group size and seconds.

    Raises:
        InputError: seconds that are not finite and >= 0, a group size that is not a whole number >= 1, sizes that do not
            ascend, or no pair.
    """
    if isinstance(sync, str) and ":" not in sync:
        sync = finite(where, field, sync)
    if isinstance(sync, int | float | np.integer | np.floating):
        check_seconds(where, field, float(sync))
        return float(sync)
    pairs = pairs_of(where, field, sync)
    if not pairs:
        raise InputError(where, field, "empty", "seconds, or pairs of group size and seconds")
    for before, (size, seconds) in pairwise([(0.0, 0.0), *pairs]):
        if size <= before[0] or size != int(size):
            raise InputError(where, field, _shown((size, seconds)), "whole, ascending group sizes >= 1")
        check_seconds(where, field, seconds)
    return pairs


def as_lines(knots: Sequence[tuple[float, float]], above: float = 0.0) -> PiecewiseLinear:
    """The knots (KV tokens, seconds) as the same lines for all workers, with `above` seconds subtracted from each knot."""
    load, seconds = np.array(knots, np.float64).T
    return PiecewiseLinear(np.ascontiguousarray(load), np.ascontiguousarray(seconds[None, :] - above))


def averaged(x: F8, seconds: F8) -> tuple[tuple[float, float], ...]:
    """Pairs of a value of `x` and the mean of its seconds, ascending in x; `x` and `seconds` are float64[N]."""
    points, place = np.unique(x, return_inverse=True)
    mean = np.bincount(place, weights=seconds) / np.bincount(place)
    return tuple(zip(points.tolist(), mean.tolist(), strict=True))


def _shown(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g}:{pair[1]:g}"
