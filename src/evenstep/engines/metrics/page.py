"""Writes a Prometheus text page: families with HELP and TYPE, samples with labels, histograms with buckets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

#: The Content-Type of the page.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind = Literal["counter", "gauge", "histogram"]


class Page:
    """A Prometheus page under construction; samples of a metric stand together, metrics in order of first use.

    `helps` is metric name -> its HELP text; without one, HELP repeats the name in words.
    """

    def __init__(self, helps: Mapping[str, str] | None = None) -> None:
        self._helps = helps or {}
        self._families: dict[str, list[str]] = {}

    def declare(self, kind: Kind, name: str) -> list[str]:
        """Put a metric's HELP and TYPE on the page, unless they are there; returns the list that takes its sample lines."""
        said = self._helps.get(name) or name.rpartition(":")[2].replace("_", " ")
        said = said.replace("\\", "\\\\").replace("\n", "\\n")
        return self._families.setdefault(f"# HELP {name} {said}\n# TYPE {name} {kind}", [])

    def add(self, kind: Kind, name: str, value: float, /, **labels: str) -> None:
        """Add one sample of a metric; `labels` (name -> value) are escaped here. An int is written whole, nan as ``NaN``."""
        self.declare(kind, name).append(_sample(name, labels, value))

    def histogram(self, name: str, buckets: Mapping[str, int], total: float, count: int, /, **labels: str) -> None:
        """Add one histogram: a ``_bucket`` line for each bound, then ``_sum`` (`total`) and ``_count``.

        `buckets` is upper bound, as text -> number of observations at or below it, ``+Inf`` last.
        """
        family = self.declare("histogram", name)
        for bound, below in buckets.items():
            family.append(_sample(f"{name}_bucket", {**labels, "le": bound}, below))
        family += [_sample(f"{name}_sum", labels, total), _sample(f"{name}_count", labels, count)]

    def text(self) -> bytes:
        """The page so far as UTF-8, every line ended by LF; samples may be added afterwards."""
        return "".join("\n".join((head, *lines)) + "\n" for head, lines in self._families.items()).encode()


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: float) -> str:
    """A number as the text format has it."""
    if isinstance(value, int):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
