"""Finds the wanted lines of a Prometheus text page, without parsing the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenstep.engines.view import NotItsPageError
from evenstep.errors import EngineError

_LABELS = rb'(?:\{((?:[^"\n}]|"(?:[^"\\\n]|\\.)*+")*+)\})?'  # values may have braces
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Line:
    """One sample: a metric's name, its labels (name -> value without escapes), its value, which may be nan or inf."""

    name: str
    labels: dict[str, str]
    value: float


def whole(label: str) -> int:
    """The whole number that a label gives in 18 digits or fewer; 0 for any other text."""
    return int(label) if label.isdecimal() and len(label) < 19 else 0


def wanted(names: Iterable[str]) -> re.Pattern[bytes]:
    """The compiled pattern for `lines`: it matches samples of these metrics, by whole names, and no comment lines."""
    either = b"|".join(re.escape(name.encode()) for name in names)
    return re.compile(rb"^(" + either + rb")" + _LABELS + rb"[ \t]+(\S+)[^\n]*$", re.MULTILINE)


def lines(page: bytes, pattern: re.Pattern[bytes]) -> list[Line]:
    """Every sample that a pattern of `wanted` finds, in order; an `EngineError` if a value is not a number."""
    found: list[Line] = []
    for match in pattern.finditer(page):
        name, labels, value = (part.decode("utf-8", "replace") for part in match.groups(b""))
        read = {k: _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], v) for k, v in _LABEL.findall(labels)}
        try:
            found.append(Line(name, read, float(value)))
        except ValueError:
            raise EngineError(f"metrics page: {name} is {value[:40]!r}; expected a number.") from None
    return found


def complete(values: dict[int, dict[str, float]], needed: Sequence[str]) -> list[tuple[int, dict[str, float]]]:
    """The items of `values` (rank -> value by metric name), ranks ascending, after a check that needed values are there.

    Raises:
        NotItsPageError: there is no rank, or one lacks a needed value.
        EngineError: a needed value is not finite.
    """
    if not values:
        raise NotItsPageError(f"metrics page: {needed[0]} is missing; expected a number.")
    found = sorted(values.items())
    for rank, seen in found:
        for name in needed:
            if name not in seen:
                raise NotItsPageError(f"metrics page: {name} of rank {rank} is missing; expected a number.")
            if not math.isfinite(seen[name]):
                raise EngineError(f"metrics page: {name} of rank {rank} is {seen[name]}; expected a number.")
    return found
