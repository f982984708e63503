"""One metric of a comparison as bars, one for each policy: on matplotlib axes, or as a picture for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.measure.comparison import Comparison
from evenstep.measure.output_file import replacing
from evenstep.report.figures import picture
from evenstep.report.html import figure_of, title_of
from evenstep.report.plots import best_first
from evenstep.report.svg import LIGHT, REST, series_of


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A metric's bar chart, a bar for each policy with a value; SVG in notebooks. `InputError` if unknown or not numeric."""

    comparison: Comparison
    metric: str

    def __post_init__(self) -> None:
        means_of(self.comparison, self.metric)

    def save(self, path: str | Path) -> Path:
        """Write the picture and return its path; the suffix, ``.svg`` or ``.png``, tells the kind.

        Raises:
            InputError: another suffix, or a file that cannot be written.
        """
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise InputError("plot", "path", str(path), "a name that ends in .svg or .png")
        with replacing(path) as out:
            out.write(self._drawn(path.suffix[1:]))
        return path

    def _repr_svg_(self) -> str:
        return self._drawn("svg").decode()

    def _drawn(self, kind: str) -> bytes:
        size = 7.0, 1.1 + 0.34 * len(self.comparison.policies)
        return picture(lambda figure: draw_bars(figure.subplots(), self.comparison, self.metric), kind, size)


def means_of(comparison: Comparison, metric: str) -> list[float]:
    """Mean of a metric over replicates for each policy, nan if a value is missing; `InputError` if unknown or no number."""
    found = [result.mean(metric) for result in comparison.policies]
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise InputError("plot", "metric", metric, "a metric that is a number")
    return [float("nan") if value is None else float(value) for value in found]


def draw_bars(axes: Any, comparison: Comparison, metric: str) -> None:
    """Draw horizontal bars with 95 % intervals, first policy on top, ``*`` for oracles; `InputError` for a bad metric."""
    scale, title = figure_of(metric).scale, title_of(metric)
    number = series_of(best_first(comparison))
    for place, (result, mean) in enumerate(zip(comparison.policies, means_of(comparison, metric), strict=True)):
        series = number[result.policy]
        colour = "#c4c9ce" if series == REST else LIGHT[series % len(LIGHT)]
        axes.barh(place, mean * scale, color=colour, height=0.7)
        interval = result.interval(metric)
        if interval is not None and interval.half is not None:
            axes.errorbar(mean * scale, place, xerr=interval.half * scale, fmt="none", color="#222222", capsize=3, lw=1)
    names = [result.policy + (" *" if result.oracle else "") for result in comparison.policies]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(title + (" (* is shown true lengths)" if any(n.endswith(" *") for n in names) else ""))
