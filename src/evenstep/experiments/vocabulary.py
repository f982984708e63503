"""The building blocks of an experiment: measured values, rows, claims and verdicts, data columns, lines of a figure.

An experiment imports them as ``from evenstep.experiments import vocabulary as ex``.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false
from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle
from typing import Any, TypeAlias, TypeVar

import numpy as np

from evenstep.experiments.reproduce import Experiment, Runs, Setting, experiment, run_policies, workload
from evenstep.measure.comparison import Interval, below, mean_interval, paired_difference, quantile_interval, share_interval
from evenstep.measure.records import Run
from evenstep.report.figures import COLOURS, band_line, bars, labelled, worker_lines
from evenstep.report.findings import Claim, Constant, Findings, Row
from evenstep.report.tables import mean_text
from evenstep.request import F8

K = TypeVar("K")
V = TypeVar("V")
#: Rows and claims in the order of the paper, as a part of an experiment yields them; `told` separates them.
Told: TypeAlias = Iterator[Row | Claim]
#: The matplotlib figure that an experiment draws on.
Figure: TypeAlias = Any


def told(*parts: Iterable[Row | Claim]) -> dict[str, Any]:
    """The ``rows`` and the ``claims`` of the parts of an experiment, each in their order, as arguments of `Findings`."""
    every = [*chain(*parts)]
    return {
        "rows": [one for one in every if isinstance(one, Row)],
        "claims": [one for one in every if isinstance(one, Claim)],
    }


def parted(found: Mapping[K, tuple[V, str]]) -> tuple[dict[K, V], str]:
    """Split key -> (result, phrase on stand-in data) into key -> result, and the distinct phrases joined by ``; ``."""
    told = dict.fromkeys(told for _, told in found.values())
    return {case: own for case, (own, _) in found.items()}, "; ".join(told)


def values(runs: Sequence[Any], name: str, factor: float = 1.0) -> list[float]:
    """The summary field `name` of each run times `factor`, in the order of the runs; nan for a run without a value."""
    return [float("nan") if (v := run.summary[name]) is None else factor * float(v) for run in runs]


def mean(runs: Sequence[Run], name: str, factor: float = 1.0) -> Interval:
    """Mean over runs of a summary field times `factor`, with its 95 % t-interval (none for one run); nan if one lacks it."""
    return mean_interval(values(runs, name, factor))


def pair(runs: Mapping[Any, Sequence[Any]], one: Any, other: Any, name: str) -> tuple[list[float], list[float]]:
    """The values of a summary field in case `one`, then in case `other`, each in the order of its runs (`values`)."""
    return values(runs[one], name), values(runs[other], name)


def ratio(above: Sequence[float], under: Sequence[float]) -> Interval:
    """The mean of ``above[i] / under[i]`` over replicates, with its 95 % interval; nan if a divisor is 0 (`quotients`)."""
    return mean_interval(quotients(above, under))


def quotients(above: Sequence[float], under: Sequence[float]) -> list[float]:
    """``above[i] / under[i]`` for each replicate i; nan where ``under[i]`` is 0. Different lengths raise ValueError."""
    return [a / b if b else float("nan") for a, b in zip(above, under, strict=True)]


def rows_of(
    runs: Runs,
    name: str,
    quantity: str,
    unit: str,
    factor: float = 1.0,
    paper: Mapping[str, float | str] | None = None,
    against: str = "",
) -> list[Row]:
    """A row a policy for one summary field, with the paired difference to the case `against` (empty = the first case).

    Args:
        runs: runs by label.
        name: the field; its values are multiplied by `factor`.
        quantity, unit: name of the measured quantity, and its unit after `factor`.
        paper: the paper's number by label; a label without one has None in its row.
    """
    base = against or next(iter(runs))
    numbers = {label: values(own, name, factor) for label, own in runs.items()}
    return [row(label, quantity, unit, own, (paper or {}).get(label), numbers[base], base) for label, own in numbers.items()]


def row(
    case: str,
    quantity: str,
    unit: str,
    ours: Sequence[float],
    paper: float | str | None = None,
    base: Sequence[float] = (),
    against: str = "",
) -> Row:
    """The row of the mean of `ours` over replicates, with its paired difference to `base`, replicate by replicate.

    There is no difference if `base` is empty or the same object as `ours`; `against`, the case of `base`, is then dropped.
    The other arguments are fields of the `Row`; `paper` None = the paper gives no number.
    """
    apart = paired_difference(ours, base) if base and base is not ours else None
    return Row(case, quantity, unit, paper, mean_interval(ours), apart, against if apart else "")


def long_table(runs: Runs, fields: Sequence[str], **fixed: Any) -> dict[str, list[Any]]:
    """Columns for the data file, a row a policy and replicate, policy by policy; `runs` are by label.

    The columns are `fixed`, with one value for all rows, then ``case`` (the label), ``replicate`` (from 0), ``digest`` and
    the summary's `fields`, None without a value.
    """
    table: dict[str, list[Any]] = {name: [] for name in (*fixed, "case", "replicate", "digest", *fields)}
    for label, own in runs.items():
        for index, run in enumerate(own):
            row = {**fixed, "case": label, "replicate": index, "digest": run.digest}
            for name, column in table.items():
                column.append(row[name] if name in row else run.summary[name])
    return table


def joined(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Concatenate tables (values by column). The result has the first table's columns, and all others must have them.

    NumPy joins the values, so a column of unlike types takes one common type.
    """
    return {name: np.concatenate([table[name] for table in tables]).tolist() for name in tables[0]}


def clearly(difference: Interval, sign: int) -> bool | None:
    """True if a paired difference has this sign (+1 or -1), False if it has the other.

    None if the interval contains 0, or has no ends (one replicate).
    """
    if difference.low is None or difference.high is None or not difference.is_clear:
        return None
    return (difference.value > 0) == (sign > 0)


def within(value: Interval, low: float, high: float) -> bool | None:
    """True if a value's whole interval lies in ``low <= x <= high``, False if no part of it does.

    None if only a part of it does, or without an interval (one replicate).
    """
    if value.low is None or value.high is None:
        return None
    return True if low <= value.low and value.high <= high else False if value.high < low or value.low > high else None


def near(value: Interval, target: float, share: float) -> bool | None:
    """`within` for the range from ``target * (1 - share)`` to ``target * (1 + share)``, target > 0."""
    return within(value, target * (1 - share), target * (1 + share))


def slopes(x: Sequence[float], y: Sequence[Sequence[float]]) -> list[float]:
    """Least-squares slope of log y over log x, the exponent of a power law, one for each replicate.

    `x` has P numbers above 0, one a point; ``y[p][r]``, above 0, is the value at point p in replicate r.
    """
    logs, every = np.log(np.array(x, float)), np.log(np.array(y, float))
    return [float(np.polyfit(logs, every[:, r], 1)[0]) for r in range(every.shape[1])]


def all_of(verdicts: Sequence[bool | None]) -> bool | None:
    """The verdict on a claim about several cases: False if one case fails, None if one is undecided, else True."""
    return False if False in verdicts else None if None in verdicts else True


def beyond(value: Interval, limit: float) -> Interval:
    """The interval minus `limit`: its value and both ends shifted down."""
    return value.map(lambda end: end - limit)


def constants(table: str) -> list[Constant]:
    """Parse a table of constants, one a line: ``name | value | why``; an indented line continues the one above."""
    entries = re.split(r"\n(?! )", textwrap.dedent(table).strip())
    return [Constant(*re.split(r" \| ", re.sub(r"\s+", " ", entry))) for entry in entries]


def compared(says: str, ours: Sequence[float], base: Sequence[float], sign: int, seen: str = "{}") -> Claim:
    """The claim `says`: `ours` lie above (`sign` +1) or below (-1) `base`, judged by their paired difference (`clearly`).

    That difference, `ours` minus `base` with its interval, replaces ``{}`` in `seen`.
    """
    apart = paired_difference(ours, base)
    return Claim(says, clearly(apart, sign), seen.format(mean_text(apart)))


def limited(says: str, value: Interval, limit: float, sign: int, seen: str = "{}") -> Claim:
    """The claim `says`: a value is above (`sign` +1) or below (-1) `limit`; not settled if the interval contains `limit`.

    Without an interval (one replicate) it is not settled either. Value and interval replace ``{}`` in `seen`.
    """
    return Claim(says, clearly(beyond(value, limit), sign), seen.format(mean_text(value)))


def all_limited(says: str, every: Iterable[Interval], limit: float, sign: int, seen: str) -> Claim:
    """The claim `says`: every value is above (`sign` +1) or below (-1) `limit`, each judged as `limited` does (`all_of`)."""
    return Claim(says, all_of([clearly(beyond(one, limit), sign) for one in every]), seen)


def placed(says: str, value: Interval, low: float, high: float, seen: str = "{}") -> Claim:
    """The claim `says`: a value lies in ``low <= x <= high`` (`within`). Value and interval replace ``{}`` in `seen`."""
    return Claim(says, within(value, low, high), seen.format(mean_text(value)))


def listed(items: Iterable[Any]) -> str:
    """The items as text, separated by commas: ``4, 8, 16``."""
    return ", ".join(map(str, items))


def by_worker(load: F8, **columns: Any) -> dict[str, Any]:
    """Every worker's load at S samples, as columns of S * G rows: sample by sample, in each the workers in order.

    `load` is float64[S, G], KV tokens. Further `columns`, of S values (one a sample) or one for all, come first. Then come
    ``worker`` (from 0) and ``load_tokens``.
    """
    samples, workers = load.shape
    repeated = {name: np.repeat(np.broadcast_to(value, samples), workers) for name, value in columns.items()}
    return {**repeated, "worker": np.tile(np.arange(workers), samples), "load_tokens": load.reshape(-1)}


def flat(found: Mapping[Any, Sequence[Any]]) -> list[Any]:
    """The values of all keys in one list, in the order of the keys."""
    return [value for own in found.values() for value in own]


def lines(axes: Any, series: Mapping[str, tuple[Any, Any]], **style: Any) -> None:
    """Draw a line for each label through its (x, y), colours from `COLOURS` in turn; `style` is matplotlib's."""
    for colour, (label, (x, y)) in zip(cycle(COLOURS), series.items(), strict=False):
        axes.plot(x, y, color=colour, label=label, **style)


def bands(
    axes: Any, series: Mapping[str, tuple[Sequence[float], Sequence[Interval]]], colours: Sequence[str] = COLOURS
) -> None:
    """Draw, for each label's (x, intervals), a line through the means in a band of the intervals, in `colours` by turns."""
    for colour, (label, (x, y)) in zip(cycle(colours), series.items(), strict=False):
        band_line(axes, x, y, label, colour)


def curves(found: Mapping[Any, Any], parts: str | Sequence[str], arrays: Sequence[str]) -> dict[str, Any]:
    """The arrays of each key as long columns: a row an array entry, key after key, with the key repeated on its rows.

    `found` has, by key, a tuple of arrays of one length; `arrays` names the first of them. `parts` as text names the column
    of the key. A list of `parts` names a column for each of the first parts of a tuple key.
    """
    keys = [(key,) if isinstance(parts, str) else key for key, own in found.items() for _ in own[0]]
    names = [parts] if isinstance(parts, str) else parts
    return {
        **{name: [key[i] for key in keys] for i, name in enumerate(names)},
        **{name: np.concatenate([own[i] for own in found.values()]) for i, name in enumerate(arrays)},
    }


def long_values(found: Mapping[tuple[Any, ...], Sequence[float]], names: Sequence[str], value: str) -> dict[str, list[Any]]:
    """One number a key and replicate as columns: the parts of the key (`grouped`), ``replicate`` from 0, and the number.

    `found` has, by key, one number a replicate; `value` names the column of the numbers.
    """
    replicates = [r for own in found.values() for r in range(len(own))]
    return {**grouped(found, names), "replicate": replicates, value: flat(found)}


def grouped(runs: Mapping[tuple[Any, ...], Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns, by name, of the leading parts of each key, one part for each of `names`; a key gives one row a replicate."""
    return {name: [key[i] for key in runs for _ in runs[key]] for i, name in enumerate(names)}
