"""The result of a parameter sweep: runs by point, policy and replicate; curves with intervals; one Parquet table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.measure.comparison import Interval, interval_of, mean_interval
from evenstep.measure.parquet import write_columns
from evenstep.wording import counted

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class SweptRun:
    """One run of a sweep, as stored in its cache."""

    replicate: int  # index of the replicate, counted from 0; indices of a point may have gaps
    seed: int  # key of the run's random draws
    digest: str  # of the run (`measure.digest`)
    trace: str  # SHA-256 of its requests
    predictor: str  # its name, or empty
    oracle: bool  # whether policy or predictor was shown true output lengths
    summary: Mapping[str, Any]  # every metric by name, None for one without a value (`Tally.summary`)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Swept:
    """The results of a whole sweep.

    Args:
        parameters: names of the P swept parameters.
        points: for each point its P values, in the order of the parameters.
        policies: the policies with their options, as the user wrote them.
        runs: ``runs[point][policy][replicate]``. All policies of a point have the same replicates; points may differ in
            their number.
        metrics: fields of the summary that tables and plots show.
        grid: whether points are a grid; otherwise a Latin hypercube.
        fixed: settings that all points share, by name.
        until: the rule that stops adding replicates to a point, as the user wrote it; empty = a fixed number.
        met: for each point, whether `until` held in the end; all true without a rule.
        command: exact command line; empty if unknown.
        versions: version by component, for instance ``evenstep``.
    """

    parameters: tuple[str, ...]
    points: tuple[tuple[Any, ...], ...]
    policies: tuple[str, ...]
    runs: tuple[tuple[tuple[SweptRun, ...], ...], ...]
    metrics: tuple[str, ...]
    grid: bool = True
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    until: str = ""
    met: tuple[bool, ...] = ()
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        over = ", ".join(self.parameters)
        policies = counted(len(self.policies), "policy", "policies")
        return f"<sweep over {over}: {counted(len(self.points), 'point')}, {policies}>"

    def interval(self, point: int, policy: int, metric: str) -> Interval | None:
        """Mean and 95 % t-interval of a metric over replicates; None if one lacks a value. `point`, `policy` are indices."""
        return interval_of([run.summary.get(metric) for run in self.runs[point][policy]])

    def _place(self, parameter: str) -> int:
        """The parameter's index in `parameters`; raises `InputError` if it was not swept."""
        if parameter not in self.parameters:
            raise InputError("sweep", "parameter", parameter, f"one of {', '.join(self.parameters)}")
        return self.parameters.index(parameter)

    def values(self, parameter: str) -> list[Any]:
        """The distinct values of a parameter: ascending if all are numbers, else in order of appearance in `points`.

        This method, `curve` and `is_numeric` raise `InputError` if the parameter was not swept.
        """
        place = self._place(parameter)
        found: list[Any] = []
        for point in self.points:
            if point[place] not in found:
                found.append(point[place])
        return sorted(found) if all(is_number(value) for value in found) else found

    def curve(self, parameter: str, policy: int, metric: str) -> list[Interval | None]:
        """The `average` of a metric over the points with each of `values(parameter)`, in order; `policy` is an index."""
        place = self._place(parameter)
        return [
            self.average([i for i, point in enumerate(self.points) if point[place] == value], policy, metric)
            for value in self.values(parameter)
        ]

    def average(self, points: Sequence[int], policy: int, metric: str) -> Interval | None:
        """The mean of a metric over points and replicates, with the 95 % t-interval over the replicates' means over points.

        If points differ in their number of replicates, the smallest number is used: later replicates of a point are ignored.
        None if there is no point, or if a run used has no value. `points` and `policy` are indices.
        """
        if not points:
            return None
        shared = min(len(self.runs[i][policy]) for i in points)
        rows = [[run.summary.get(metric) for run in self.runs[i][policy][:shared]] for i in points]
        if any(value is None for row in rows for value in row):
            return None
        return mean_interval([float(value) for value in np.mean(np.array(rows, np.float64), axis=0)])

    def is_numeric(self, parameter: str) -> bool:
        """True if every value of the parameter is a number; a bool is not."""
        return all(is_number(value) for value in self.values(parameter))

    def is_oracle(self, policy: int) -> bool:
        """True if the policy, an index in `policies`, was shown true output lengths in any run."""
        return any(run.oracle for point in self.runs for run in point[policy])


def is_number(value: object) -> bool:
    """True for an int or a float, nan included; a bool is not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_text(value: Any) -> str:
    """A parameter's value as text: ``none`` (of an empty list, too), ``true``, ``false``, list items joined by commas.

    Floats have 6 digits (`:g`).
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(value_text(item) for item in value) or "none"  # pyright: ignore[reportUnknownVariableType]
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_swept(swept: Swept, path: Path) -> int:
    """Write the table of `columns_of` as a Parquet file, with facts about the sweep as metadata; returns the number of rows.

    The same sweep gives the same bytes, however often it was stopped and wherever its runs were made. An old file is
    replaced. Raises `InputError` if the file cannot be written.
    """
    import pyarrow as pa

    columns = {  # a metric that no run has is still a number
        name: pa.array(values, pa.float64() if all(v is None for v in values) else None)
        for name, values in columns_of(swept).items()
    }
    about = {
        "parameters": swept.parameters,
        "policies": swept.policies,
        "metrics": swept.metrics,
        "fixed": dict(swept.fixed),
        "until": swept.until,
        "versions": dict(swept.versions),
    }
    return write_columns(columns, path, "sweep", about)


def columns_of(swept: Swept) -> dict[str, list[Any]]:
    """The columns of the sweep's table by name, one row for each run, sorted by point, then policy, then replicate.

    ``point`` (index), each parameter, ``policy``, ``predictor``, ``oracle``, ``replicate``, ``seed``, ``digest``, ``trace``,
    ``window`` (its kind), each metric that is neither a dict nor a list, and ``until_met`` if there is a stopping rule. Each
    column has one type: bool, int, float or else text (`value_text`). None stays None.
    """
    places = [(p, i, run) for p, point in enumerate(swept.runs) for i, runs in enumerate(point) for run in runs]
    columns: dict[str, list[Any]] = {"point": [p for p, _, _ in places]}
    for place, parameter in enumerate(swept.parameters):
        columns[parameter] = _alike([swept.points[p][place] for p, _, _ in places])
    columns["policy"] = [swept.policies[i] for _, i, _ in places]
    for name in ("predictor", "oracle", "replicate", "seed", "digest", "trace"):
        columns[name] = [getattr(run, name) for _, _, run in places]
    columns["window"] = [run.summary["window"]["kind"] for _, _, run in places]
    for name in dict.fromkeys(name for _, _, run in places for name in run.summary):
        values = [run.summary.get(name) for _, _, run in places]
        if not any(isinstance(value, dict | list) for value in values):
            columns[name] = _alike(values)
    if swept.until:
        columns["until_met"] = [swept.met[p] for p, _, _ in places]
    return columns


def to_json_object(swept: Swept) -> dict[str, Any]:
    """The sweep as one JSON-ready dict: facts about it, and ``rows``, one for each point and policy.

    A row has ``point`` (index), ``parameters``, ``policy``, ``oracle``, ``replicates`` (number), ``until_met`` and
    ``metrics``: for each of `metrics` ``mean``, ``low`` and ``high``, or None if a replicate has no value.
    """
    rows: list[dict[str, Any]] = []
    for p, point in enumerate(swept.points):
        for i, policy in enumerate(swept.policies):
            found = {name: swept.interval(p, i, name) for name in swept.metrics}
            means = {name: one and {"mean": one.value, "low": one.low, "high": one.high} for name, one in found.items()}
            rows.append(
                {
                    "point": p,
                    "parameters": dict(zip(swept.parameters, point, strict=True)),
                    "policy": policy,
                    "oracle": swept.is_oracle(i),
                    "replicates": len(swept.runs[p][i]),
                    "until_met": swept.met[p],
                    "metrics": means,
                }
            )
    return {
        "version": _VERSION,
        "command": swept.command,
        "versions": dict(swept.versions),
        "fixed": dict(swept.fixed),
        "until": swept.until or None,
        "interval": "95 % t-interval of the mean over replicates",
        "rows": rows,
    }


def _alike(values: list[Any]) -> list[Any]:
    """Convert values of a column to one type: all bool or all int stay, else float, else text. None stays None."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known) or all(type(value) is int for value in known):
        return values
    if all(is_number(value) for value in known):
        return [None if value is None else float(value) for value in values]
    return [None if value is None else value_text(value) for value in values]
