"""Charts of engine runs as inline SVG: queue, memory and batches over time, latencies, and mean against p99."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenstep.measure.engine_comparison import EngineComparison
from evenstep.measure.engine_records import EngineRun
from evenstep.report.plots import Series, distribution, lines, means, stretches
from evenstep.report.svg import Board, Scale, series_of


def over_time(runs: Mapping[str, EngineRun], column: str, label: str, y_title: str) -> str:
    """SVG chart of the column `column` of `IterationTable` over seconds, one line a policy; empty text without any line.

    `runs` are by policy. A line shows means over stretches of iterations; a run without iterations has no line. `label`
    describes the chart for screen readers, and `y_title` is the title of the y axis.
    """
    series: Series = []
    for i, run in zip(series_of(runs).values(), runs.values(), strict=True):
        if run.iterations is not None and run.iterations.start_s.size:
            edges = stretches(run.iterations.start_s.size)
            values = getattr(run.iterations, column).astype(np.float64)
            series.append((i, run.iterations.start_s[edges[:-1]], means(values, edges)))
    return lines(series, label, "time, s", y_title)


def composition(name: str, series: int, run: EngineRun) -> str:
    """SVG chart of one policy's tokens an iteration over time, prefill stacked on decodes; empty without iterations.

    Values are means over stretches of iterations. `series` is the policy's number in `series_of`.
    """
    if run.iterations is None or not run.iterations.start_s.size:
        return ""
    table = run.iterations
    edges = stretches(table.start_s.size)
    time = table.start_s[edges[:-1]]
    decodes, tokens = (means(table.decodes.astype(np.float64), edges), means(table.tokens.astype(np.float64), edges))
    x, y = Scale(0.0, max(float(time[-1]), 1e-9)), Scale(0.0, max(float(tokens.max()), 1.0) * 1.05)
    board = Board(x, y, height=240, label=f"tokens of an iteration over time, {name}")
    board.axes("time, s", "tokens an iteration")
    board.area(time, decodes, tokens, series)
    board.line(time, tokens, series, "thin")
    board.line(time, decodes, series)
    return board.svg()


def latencies(runs: Mapping[str, EngineRun], kind: str, title: str) -> str:
    """SVG chart of the cumulative distribution of a latency over requests, one line a policy; empty without requests.

    `kind` ``e2e`` is end-to-end latency, any other text TTFT; `title` is its name in the chart.
    """
    found = [
        (i, (run.requests.finished_s if kind == "e2e" else run.requests.first_token_s) - run.requests.arrival_s)
        for i, run in zip(series_of(runs).values(), runs.values(), strict=True)
    ]
    return distribution(found, title, f"{title}, s", "requests, %", log=True)


def mean_against_p99(comparison: EngineComparison) -> str:
    """SVG chart, a dot a policy: mean end-to-end latency to the right, 99th percentile up (s); empty without values."""
    number = series_of(r.policy for r in comparison.policies)
    found = [(number[r.policy], r.mean("e2e_mean_s"), r.mean("e2e_p99_s"), r.policy) for r in comparison.policies]
    found = [one for one in found if one[1] is not None and one[2] is not None]
    if not found:
        return ""
    x, y = scale([one[1] for one in found]), scale([one[2] for one in found])
    board = Board(x, y, label="mean end-to-end latency against its 99th percentile")
    board.axes("mean end-to-end latency, s", "99th percentile, s")
    for i, mean, tail, name in found:
        board.dot(mean, tail, i, float("nan"), float("nan"), f"{name}: mean {mean:.4g} s, p99 {tail:.4g} s")
    board.names([(mean, tail, name) for _, mean, tail, name in found])
    return board.svg()


def scale(values: list[float]) -> Scale:
    """A scale with room around one or more values; logarithmic if all are above 0 and differ by more than 20 times."""
    low, high = min(values), max(values)
    if high > 20 * low > 0:
        return Scale(low / 1.3, high * 1.3, log=True)
    room = max(0.08 * (high - low), 0.02 * high, 1e-9)
    return Scale(max(low - room, 0.0), high + room)
