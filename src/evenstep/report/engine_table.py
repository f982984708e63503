"""Scheduling policies as lines for a terminal: means over replicates, row by row, and differences to the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstep.measure.comparison import PolicyResult
from evenstep.measure.engine_comparison import EngineComparison
from evenstep.report.numbers import MISSING, relative, short
from evenstep.report.tables import GAP, cut_names, fitted, full_names, name_limit, split

#: Heading, unit, field of the summary and factor of each column.
COLUMNS = (
    ("throughput", "tokens/s", "throughput_tokens_per_s", 1.0),
    ("E2E mean", "s", "e2e_mean_s", 1.0),
    ("E2E p50", "s", "e2e_p50_s", 1.0),
    ("E2E p99", "s", "e2e_p99_s", 1.0),
    ("TTFT mean", "s", "ttft_mean_s", 1.0),
    ("TTFT p99", "s", "ttft_p99_s", 1.0),
    ("SLO met", "%", "slo_share", 100.0),
    ("goodput", "requests/s", "goodput_requests_per_s", 1.0),
    ("TBT p50", "ms", "tbt_p50_s", 1e3),
    ("TBT p99", "ms", "tbt_p99_s", 1e3),
    ("evictions", "", "evictions", 1.0),
    ("wasted", "tokens", "wasted_tokens", 1.0),
    ("iterations", "", "iterations", 1.0),
)
#: Fields whose differences are printed.
DIFFERENCES = ("throughput_tokens_per_s", "e2e_mean_s", "e2e_p99_s", "ttft_p99_s", "tbt_p99_s", "goodput_requests_per_s")


#: Least width of a column, in letters, for all but huge figures; and of some, by heading, for larger ones and all verdicts.
_LEAST, _LARGER = 7, {"wasted": 9, "verdict": 9}


def columns_of(known: Mapping[str, Any]) -> tuple[tuple[str, str, str, float], ...]:
    """The `COLUMNS` that a summary, `known`, has; those of an objective need one."""
    return tuple(column for column in COLUMNS if column[2] in known)


class EngineTable:
    """The table of scheduling policies as lines: `row` for each policy in order, as soon as it has run, then `foot`.

    On a narrow terminal `row` gives the columns that fit, and `foot` the others. Widths do not depend on the figures.

    Args:
        names: of all policies; they set the width of the first column.
        width: letters in a line of the terminal, where long names are cut; None = any number.
    """

    def __init__(self, names: Sequence[str], width: int | None = None) -> None:
        self._names, self._width = cut_names(names, name_limit(width)), width
        self._rows: list[list[str]] = []

    def row(self, result: PolicyResult) -> list[str]:
        """The line of one policy, below the headings and units if it is the first."""
        columns, is_first = columns_of(result.summaries[0]), not self._rows
        if is_first:
            self._rows.append(["policy", *(heading for heading, *_ in columns), "verdict"])
            self._rows.append(["", *(unit for _, unit, *_ in columns), ""])
        figures = (cell(result, name, factor) for *_, name, factor in columns)
        self._rows.append([self._names[result.policy], *figures, result.mean("verdict") or MISSING])
        return self._parts()[0][0 if is_first else -1 :]

    def foot(self, comparison: EngineComparison) -> list[str]:
        """The lines below the rows: columns that did not fit, differences to the baseline, and cut names in full."""
        below = [line for part in self._parts()[1:] for line in ("", *part)]
        return [*below, *_difference_lines(comparison, self._names, self._width), "", *full_names(self._names)]

    def _parts(self) -> list[list[str]]:
        """The rows so far, headings first, in parts that fit the terminal."""
        heads, units, *_ = self._rows
        wide = [max(_LARGER.get(head, _LEAST), len(head), len(unit)) for head, unit in zip(heads, units, strict=True)]
        wide[0] = max(len(heads[0]), *map(len, self._names.values()))
        padded = [[row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])] for row in self._rows]
        return [[GAP.join(row[c] for c in shown).rstrip() for row in padded] for shown in split(wide, self._width)]


def count_lines(comparison: EngineComparison) -> list[str]:
    """A line ``policy: name count, ...`` for each policy that has counts above 0 in its ``counted``, replicate means."""
    lines: list[str] = []
    for result in comparison.policies:
        found = {name: value for name, value in result.mean("counted").items() if value}
        if found:
            words = ", ".join(f"{name.replace('_', ' ')} {short(value)}" for name, value in found.items())
            lines.append(f"{result.policy}: {words}")
    return lines


def verdict_lines(comparison: EngineComparison) -> list[str]:
    """A line that explains each of the verdicts undecided, mixed and unstable, if some policy has it."""
    found = {result.mean("verdict") for result in comparison.policies}
    said = {
        "undecided": "undecided: this run is too short to tell whether the queue keeps growing; a longer one (--limit) may.",
        "mixed": "mixed: the replicates have different verdicts; more or longer ones may agree (--seeds, --limit).",
        "unstable": "unstable: requests arrive faster than the engine serves them, so latencies grow with the run.",
    }
    return [text for verdict, text in said.items() if verdict in found]


def cell(result: PolicyResult, name: str, factor: float) -> str:
    """The mean over replicates of the field `name`, times `factor`, as text; `MISSING` if a replicate has no value."""
    value = result.mean(name)
    return MISSING if value is None else short(value * factor)


def _difference_lines(comparison: EngineComparison, names: Mapping[str, str], width: int | None) -> list[str]:
    """Lines with the columns in `DIFFERENCES`, in per cent of the baseline's mean; no lines for a single policy.

    They are an empty line, a title, headings, and a line for each other policy. `names` has what is shown of each name.
    """
    base = comparison.policies[comparison.baseline]
    others = [r for r in comparison.policies if r is not base]
    if not others:
        return []
    shown = [column for column in columns_of(base.summaries[0]) if column[2] in DIFFERENCES]
    rows = [["", *(heading for heading, *_ in shown)]]
    for result in others:
        found = comparison.differences(result)
        rows.append([names[result.policy], *(relative(found.get(name), base.mean(name), 1, "") for _, _, name, _ in shown)])
    many = ", ± half a 95 % interval" if len(base.seeds) > 1 else ""
    return ["", f"difference to {base.policy} in per cent of it, replicate by replicate{many}", *fitted(rows, width)]
