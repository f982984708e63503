"""The charts of the routing report: record tables in, inline SVG out; points are thinned so that a page stays small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenstep.measure import metrics
from evenstep.measure.comparison import Compared, Comparison
from evenstep.measure.records import Conditions, Run, StepTable, WorkerTable
from evenstep.report.svg import MANY, REST, Board, Scale, from_zero, series_of
from evenstep.request import F8, I8
from evenstep.wording import counted

#: Most points of a line over time, of a worker's line, and of a distribution.
POINTS, WORKER_POINTS, SHARE_POINTS = 300, 360, 200
#: Most workers drawn with their own line, in a chart and in all charts; the band under them covers all.
WORKER_LINES, ALL_WORKER_LINES = 32, 320

Series = list[tuple[int, F8, F8]]  # number of the policy, x, y


def best_first(comparison: Compared[Any]) -> list[str]:
    """The policies in the order asked; of more than `MANY` the baseline, then by time lost at the barrier, least first.

    Policies of an engine, which know no barrier, stay in the order asked.
    """
    names = [result.policy for result in comparison.policies]
    if len(names) <= MANY or "idle_time_share" not in comparison.policies[0].summaries[0]:
        return names
    lost = {result.policy: result.mean("idle_time_share") for result in comparison.policies}
    base = names.pop(comparison.baseline)
    return [base, *sorted(names, key=lambda name: np.inf if lost[name] is None else lost[name])]


def load_bands(runs: Mapping[str, Run]) -> dict[str, str]:
    """For each policy an SVG chart of the KV load of its workers over time, all on the same axes (BF-IO Fig. 6).

    A band covers all workers; at most `WORKER_LINES` have their own line, `ALL_WORKER_LINES` in all charts. Policies
    without worker samples are left out.
    """
    tables = {name: run.workers for name, run in runs.items() if run.workers is not None and run.workers.step.size}
    if not tables:
        return {}
    y = from_zero([t.load.max(axis=1) for t in tables.values()])
    x = from_zero([t.start_s for t in tables.values()], 1.0)
    number = series_of(runs)
    lines = min(WORKER_LINES, ALL_WORKER_LINES // len(tables))
    return {name: _load_band(name, number[name], table, x, y, lines) for name, table in tables.items()}


def _load_band(name: str, series: int, table: WorkerTable, x: Scale, y: Scale, lines: int) -> str:
    """The chart of `load_bands` for one policy, with number `series` in `series_of`; at most `lines` workers have a line."""
    board = Board(x, y, height=240, label=f"KV load of each worker over time, {name}")
    board.axes("time, s", "KV tokens a worker")
    edges = stretches(table.step.size, WORKER_POINTS)
    time = table.start_s[edges[:-1]]
    high = np.maximum.reduceat(table.load.max(axis=1), edges[:-1])
    low = np.minimum.reduceat(table.load.min(axis=1), edges[:-1])
    board.area(time, low, high, series)
    workers = table.load.shape[1]
    for worker in np.unique(np.linspace(0, workers - 1, min(workers, lines)).astype(np.int64)):
        board.line(time, table.load[edges[:-1], worker], series, "thin")
    return board.svg()


def envelope_over_time(runs: Mapping[str, Run]) -> str:
    """SVG chart of the load of the heaviest worker, KV tokens, means over stretches of steps; empty text without steps."""
    series = [(i, *_over_time(s, s.envelope)) for i, s, _ in _steps(runs)]
    return lines(series, "envelope over time", "time, s", "KV tokens, heaviest worker")


def idle_over_time(runs: Mapping[str, Run]) -> str:
    """SVG chart of worker time lost at the barrier, per cent, means over stretches of steps; empty text without steps."""
    series = [(i, *_over_time(s, 100 * idle_of(s, c))) for i, s, c in _steps(runs)]
    return lines(series, "time lost at the barrier", "time, s", "lost at the barrier, %")


def power_over_time(runs: Mapping[str, Run]) -> str:
    """SVG chart of mean watts of a worker while its group steps, busy/idle accounting (BF-IO Fig. 7); "" without steps."""
    series: Series = []
    for i, s, c in _steps(runs):
        size = metrics.of_group(c.group_sizes, s.group)
        edges = stretches(s.rows)[:-1]
        worker_s = np.add.reduceat(s.duration_s * size, edges)
        joules = np.add.reduceat(s.energy_busy_idle_j, edges)
        watts = np.divide(joules, worker_s, out=np.full(joules.size, np.nan), where=worker_s > 0)
        series.append((i, s.start_s[edges], watts))
    return lines(series, "power over time", "time, s", "watts a worker", tight=True)


def imbalance_distribution(runs: Mapping[str, Run]) -> str:
    """SVG chart of the cumulative distribution of imbalance (KV tokens) over the steady window's steps; "" without steps."""
    found: list[tuple[int, F8]] = []
    for i, s, c in _steps(runs):
        size = metrics.of_group(c.group_sizes, s.group)
        values = metrics.imbalance_envelope(s.envelope, s.load_sum, size)
        _, first, last = metrics.steady_window(metrics.full(s, c.slots_total))
        found.append((i, values[first : last + 1]))
    return distribution(found, "distribution of imbalance", "imbalance, KV tokens", "share of steps, %", log=True)


def tpot_distribution(runs: Mapping[str, Run]) -> str:
    """SVG chart of the cumulative distribution of milliseconds per output token over requests; "" without requests."""
    found = [
        (i, 1e3 * metrics.tpot(run.requests))
        for i, run in zip(series_of(runs).values(), runs.values(), strict=True)
        if run.requests is not None and run.requests.rows
    ]
    return distribution(found, "distribution of time per output token", "TPOT, ms", "share of requests, %")


def waits_by_size(fifths: Mapping[str, list[dict[str, Any]]], field: str, y_title: str) -> str:
    """SVG chart with a group of bars for each fifth of the requests by prompt size, a bar a policy; "" without fifths.

    Args:
        fifths: for each policy, ``waits_by_prompt_fifth`` of its summary.
        field, y_title: ``mean_wait_s`` or ``oldest_wait_s``, and its name for the axis.
    """
    groups = max((len(f) for f in fifths.values()), default=0)
    if groups == 0:
        return ""
    values = [np.array([row[field] for row in f]) for f in fifths.values()]
    board = Board(Scale(0, 1), from_zero(values), label=f"{y_title} by prompt size")
    board.axes("prompt tokens, fifths of the requests", y_title, x_ticks=0)
    slot = 1.0 / groups
    width = 0.8 * slot / len(fifths)
    number = series_of(fifths)
    for i, (name, rows) in enumerate(fifths.items()):
        for k, row in enumerate(rows):
            sizes = f"{row['prompt_tokens_from']}-{row['prompt_tokens_to']}"
            text = f"{name}, prompts {sizes}: {row[field]:.3g} s, {counted(row['requests'], 'request')}"
            board.bar(k * slot + 0.1 * slot + i * width, width * 0.92, row[field], number[name], text)
    for k, row in enumerate(next(f for f in fifths.values() if len(f) == groups)):
        board.note((k + 0.5) * slot, f"{row['prompt_tokens_from']}-{row['prompt_tokens_to']}")
    return board.svg()


def energy(comparison: Comparison) -> str:
    """SVG chart, a bar a policy: mean kJ of a run, by busy/idle and by step-average accounting; "" if a value is missing."""
    accountings = (("energy_busy_idle_j", "busy and idle priced apart"), ("energy_step_average_j", "step average"))
    joules = {f: [p.mean(f) for p in comparison.policies] for f, _ in accountings}
    if any(value is None for values in joules.values() for value in values):
        return ""
    scale = from_zero([1e-3 * np.array(values) for values in joules.values()])
    board = Board(Scale(0, 1), scale, label="energy of the whole run")
    board.axes("accounting", "energy, kJ", x_ticks=0)
    width = 0.4 / len(comparison.policies)
    number = series_of(best_first(comparison))
    for k, (field, name) in enumerate(accountings):
        for i, (result, value) in enumerate(zip(comparison.policies, joules[field], strict=True)):
            title = f"{result.policy}, {name}: {1e-3 * value:,.4g} kJ"
            board.bar(0.5 * k + 0.05 + i * width, 0.92 * width, 1e-3 * value, number[result.policy], title)
        board.note(0.5 * k + 0.25, name)
    return board.svg()


def idle_of(steps: StepTable, conditions: Conditions) -> F8:
    """float64[K] in [0, 1): share of each step's worker time, C included, lost at the barrier (metric `idle_time_share`)."""
    size = metrics.of_group(conditions.group_sizes, steps.group)
    fixed = metrics.of_group(metrics.group_overheads(conditions), steps.group)
    return metrics.idle_share(steps.local_max_s, steps.local_sum_s, size, fixed)


def _steps(runs: Mapping[str, Run]) -> list[tuple[int, StepTable, Conditions]]:
    """Number in `series_of`, steps and conditions of each policy whose steps were recorded."""
    return [
        (i, run.steps, run.conditions)
        for i, run in zip(series_of(runs).values(), runs.values(), strict=True)
        if run.steps is not None and run.steps.rows
    ]


def stretches(rows: int, most: int = POINTS) -> I8:
    """int64[P+1], ascending: first rows of P <= `most` stretches of `rows` rows, equal up to one row; then `rows`."""
    return np.unique(np.linspace(0, rows, min(rows, most) + 1).astype(np.int64))


def means(values: F8, edges: I8) -> F8:
    """float64[P], means of `values`, float64[rows], over each stretch; `edges` is the result of `stretches(rows)`."""
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)


def _over_time(steps: StepTable, values: F8) -> tuple[F8, F8]:
    """float64[P] each: start of each stretch of steps, seconds, and mean of `values`, float64[K], over it."""
    edges = stretches(steps.rows)
    return steps.start_s[edges[:-1]], means(values, edges)


def lines(series: Series, label: str, x_title: str, y_title: str, tight: bool = False) -> str:
    """SVG chart of lines on common axes, every point drawn; "" without any value. x begins at 0; nan in y breaks a line.

    Args:
        series: for each line the number of its policy (`svg.series_of`), x and y, float64[N] each.
        label, x_title, y_title: description of the chart for screen readers, and titles of its axes.
        tight: True = the y axis begins just below the smallest value, else at 0.
    """
    series = [one for one in series if np.isfinite(one[2]).any()]
    if not series:
        return ""
    y = from_zero([s[2] for s in series])
    if tight:
        low = min(float(np.nanmin(s[2])) for s in series)
        y = Scale(low - 0.05 * (y.high - low), y.high) if low < y.high else y
    board = Board(from_zero([s[1] for s in series], 1.0), y, label=label)
    board.axes(x_title, y_title)
    for number, x, values in sorted(series, key=_grey_first):
        board.line(x, values, number)
    return board.svg()


def _grey_first(series: tuple[Any, ...]) -> bool:
    """A sort key that puts lines in grey first, so that they are under the others."""
    return series[0] != REST


def distribution(found: list[tuple[int, F8]], label: str, x_title: str, y_title: str, log: bool = False) -> str:
    """SVG chart of cumulative distributions, from the lowest 0.1 % quantile to the highest 99.9 % one; "" without values.

    Args:
        found: number of the policy (`series_of`) and its values, float64[N] in any order.
        label, x_title, y_title: description of the chart for screen readers, and titles of its axes.
        log: a logarithmic x axis, of four powers of ten at most, if the values differ by more than a factor of 20.
    """
    kept = [(i, np.sort(values)) for i, values in found if values.size]
    if not kept:
        return ""
    shares = np.linspace(0.0, 1.0, SHARE_POINTS)
    low = min(float(v[int(0.001 * (v.size - 1))]) for _, v in kept)
    high = max(float(v[int(np.ceil(0.999 * (v.size - 1)))]) for _, v in kept)
    log = log and high > 20 * max(low, high * 1e-4)
    x = Scale(max(low, high * 1e-4), high, log=True) if log else Scale(low, high if high > low else low + 1.0)
    board = Board(x, Scale(0, 100), label=label)
    board.axes(x_title, y_title)
    for number, values in sorted(kept, key=_grey_first):
        board.line(values[np.round(shares * (values.size - 1)).astype(np.int64)], 100 * shares, number)
    return board.svg()
