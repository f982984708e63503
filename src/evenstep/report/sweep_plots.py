"""Charts of a sweep: a metric against a parameter, a line a policy with its interval; and over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep.measure.comparison import Interval
from evenstep.measure.swept import Swept, is_number, value_text
from evenstep.report.html import figure_of, title_of
from evenstep.report.numbers import short
from evenstep.report.svg import Board, Scale, series_of
from evenstep.request import F8

#: About the most values written below an axis.
NAMED = 9
#: A parameter whose largest value is at least so many times its smallest is drawn on a logarithmic scale.
DECADE = 10.0


def against(swept: Swept, parameter: str, metric: str) -> str:
    """SVG chart of a metric against one parameter, for every policy, with 95 % intervals; "" if no mean has a value.

    It has dots on lines with bands if the sweep is a grid and the parameter has several values, all numbers; else dots with
    whiskers. On a grid a value is the mean over the other parameters; in a Latin hypercube every point is a dot of its own.
    """
    numeric, policies = swept.is_numeric(parameter), range(len(swept.policies))
    values = swept.values(parameter)
    if swept.grid:
        curves, places = [swept.curve(parameter, i, metric) for i in policies], values
    else:
        index = swept.parameters.index(parameter)
        curves = [[swept.interval(p, i, metric) for p in range(len(swept.points))] for i in policies]
        places = [point[index] for point in swept.points]
    factor = figure_of(metric).scale
    found = [_columns(curve, factor) for curve in curves]
    if not any(np.isfinite(mean).any() for mean, _, _ in found):
        return ""
    board = Board(_across(values, numeric), _upward(found), label=f"{metric} against {parameter}")
    if numeric and not swept.grid:
        board.axes(parameter, title_of(metric))
    else:
        board.axes(parameter, title_of(metric), x_ticks=0)
        _name_values(board, values, numeric)
    banded = numeric and swept.grid and len(values) > 1
    series = list(series_of(swept.policies).values())
    for number, (mean, low, high) in enumerate(found):
        if banded:
            x = np.array(values, np.float64)
            known = np.isfinite(low) & np.isfinite(high)
            board.area(x[known], low[known], high[known], series[number])
            board.line(x, mean, series[number])
        apart = 0.0 if numeric else 0.5 * ((number + 0.5) / len(found) - 0.5)
        for place, y, a, b in zip(places, mean, low, high, strict=True):
            if np.isfinite(y):
                at = float(place) if numeric else values.index(place) + apart
                text = f"{swept.policies[number]}, {parameter} {value_text(place)}: {short(float(y))}"
                ends = (np.nan, np.nan) if banded else (float(a), float(b))
                board.dot(at, float(y), series[number], *ends, text)
    return board.svg()


def over_two(swept: Swept, across: str, upward: str, metric: str) -> dict[str, str]:
    """For each policy an SVG heat map of a metric over two parameters of a grid, means over the others and replicates.

    Columns are the `values` of `across`, from the left, rows those of `upward`, from below. All maps share one scale of
    shades. A cell without a value is empty; the dict is empty if no cell has a value.
    """
    columns, rows = swept.values(across), swept.values(upward)
    a, b = swept.parameters.index(across), swept.parameters.index(upward)
    factor = figure_of(metric).scale
    means: list[F8] = []
    for policy in range(len(swept.policies)):
        cells = np.full((len(rows), len(columns)), np.nan)
        for r, row in enumerate(rows):
            for c, column in enumerate(columns):
                here = [p for p, point in enumerate(swept.points) if (point[a], point[b]) == (column, row)]
                found = swept.average(here, policy, metric)
                cells[r, c] = np.nan if found is None else found.value * factor
        means.append(cells)
    known = np.concatenate([cells[np.isfinite(cells)] for cells in means])
    if known.size == 0:
        return {}
    low, high = float(known.min()), float(known.max())
    maps: dict[str, str] = {}
    for name, cells in zip(swept.policies, means, strict=True):
        board = Board(Scale(0, 1), Scale(0, 1), label=f"{metric} over {across} and {upward}, {name}", left=64)
        board.axes(across, upward, x_ticks=0, y_ticks=0)
        wide, tall = 1 / len(columns), 1 / len(rows)
        for (r, c), value in np.ndenumerate(cells):
            if np.isfinite(value):
                shade = (float(value) - low) / (high - low) if high > low else 0.0
                board.cell(c * wide, r * tall, wide, tall, shade, short(float(value)))
        for c, column in enumerate(columns):
            board.note((c + 0.5) * wide, value_text(column))
        for r, row in enumerate(rows):
            board.side_note((r + 0.5) * tall, value_text(row))
        maps[name] = board.svg()
    return maps


def _columns(curve: Sequence[Interval | None], factor: float) -> tuple[F8, F8, F8]:
    """float64[N] each: means, lower ends and upper ends of intervals, times `factor`; nan if missing."""
    rows = [(None, None, None) if one is None else (one.value, one.low, one.high) for one in curve]
    mean, low, high = factor * np.array(rows, np.float64).T  # None becomes nan
    return mean, low, high


def _across(values: Sequence[Any], numeric: bool) -> Scale:
    """The x scale for values of a parameter; those that are not numbers stand at 0, 1, 2, ..."""
    if not numeric:
        return Scale(-0.5, len(values) - 0.5)
    low, high = float(min(values)), float(max(values))
    if low == high:
        return Scale(low - 0.5, high + 0.5)
    return Scale(low, high, log=low > 0 and high >= DECADE * low)


def _upward(found: Sequence[tuple[F8, F8, F8]]) -> Scale:
    """The y scale for means and ends: from 0 if the smallest is from 0 to half the largest, else from just below it."""
    every = np.concatenate([column for columns in found for column in columns])
    every = every[np.isfinite(every)]
    low, high = float(every.min()), float(every.max())
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    if 0 <= low < 0.5 * high:
        return Scale(0.0, high + room)
    return Scale(low - room, high + room)


def _name_values(board: Board, values: Sequence[Any], numeric: bool) -> None:
    """Write the values of a parameter below the x axis, at most about `NAMED` of them."""
    every = -(-len(values) // NAMED)
    for number, value in enumerate(values):
        if number % every == 0:
            at = float(value) if is_number(value) and numeric else float(number)
            board.note(float(board.x.share(np.array([at]))[0]), value_text(value))
