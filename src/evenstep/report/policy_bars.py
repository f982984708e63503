"""One metric of a comparison as bars, one for each policy: on matplotlib axes, or as a picture for notebooks."""

from __future__ import annotations

from typing import Any

from evenstep.errors import InputError
from evenstep.measure.comparison import Comparison
from evenstep.report.figures import Picture
from evenstep.report.html import figure_of, title_of
from evenstep.report.plots import best_first
from evenstep.report.svg import colour_of, series_of


def bars_of(comparison: Comparison, metric: str) -> Picture:
    """A metric's bar chart, a bar for each policy with a value. `InputError` if the metric is unknown or not numeric."""
    means_of(comparison, metric)
    return Picture(lambda axes: draw_bars(axes, comparison, metric), 1.1 + 0.34 * len(comparison.policies))


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
        axes.barh(place, mean * scale, color=colour_of(number[result.policy]), height=0.7)
        interval = result.interval(metric)
        if interval is not None and interval.half is not None:
            axes.errorbar(mean * scale, place, xerr=interval.half * scale, fmt="none", color="#222222", capsize=3, lw=1)
    names = [result.policy + (" *" if result.oracle else "") for result in comparison.policies]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(title + (" (* is shown true lengths)" if any(n.endswith(" *") for n in names) else ""))
