"""Formats numbers for tables, plots and reports: few digits, a unit, a sign if it matters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenstep.measure.comparison import Interval

MISSING = "-"


def short(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits, but all digits before the point: ``0.0123``, ``1.23``, ``12,345``.

    It has at most nine decimals; less than half of the last one is ``0``. `MISSING` for None and nan, ``inf`` for infinity.
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return str(value)
    if abs(value) < 5e-10:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 9)}f}"


def percent(value: float | None, places: int = 2) -> str:
    """A share in per cent as text, without the sign: 0.0271 is ``2.71``. `MISSING` for None and nan."""
    return MISSING if value is None or math.isnan(value) else f"{100 * value:.{places}f}"


def relative(difference: Interval | None, base: float | None, places: int = 2, unit: str = " %") -> str:
    """A difference in per cent of `base`, with half the width of its interval if it has ends: ``-12.3 % ±0.4``.

    `MISSING` without a difference, or if `base`, the baseline's mean in the same unit, is 0 or None.
    """
    if difference is None or not base:
        return MISSING
    change = f"{100 * difference.value / base:+.{places}f}{unit}"
    return change if difference.half is None else f"{change} ±{100 * difference.half / abs(base):.{places}f}"


def tick(value: float, digits: int = 4) -> str:
    """A number for an axis: ``0``, ``0.5``, ``20``, ``15k``, ``2M``; k, M and G stand for 1e3, 1e6 and 1e9.

    It has at most `digits` significant digits, or with a letter two more.
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.{digits + 2}g}{letter}"
    return f"{value:.{digits}g}"


def ticks(values: Sequence[float]) -> list[str]:
    """The numbers of an axis as text (`tick`), with 4 significant digits, or as many as tell them apart."""
    found = [tick(value) for value in values]
    for digits in range(5, 16):
        if len(set(found)) < len(found):
            found = [tick(value, digits) for value in values]
    return found
