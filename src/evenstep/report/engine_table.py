"""Scheduling policies as lines for a terminal: means over replicates, and differences to the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from evenstep.measure.comparison import PolicyResult
from evenstep.measure.engine_comparison import EngineComparison
from evenstep.report.numbers import MISSING, relative, short
from evenstep.report.tables import cut_names, fitted, full_names, name_limit

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


def columns_of(comparison: EngineComparison) -> tuple[tuple[str, str, str, float], ...]:
    """The `COLUMNS` that the comparison's summaries have; those of an objective need one."""
    return tuple(column for column in COLUMNS if column[2] in comparison.policies[0].summaries[0])


def table_lines(comparison: EngineComparison, width: int | None = None) -> list[str]:
    """Lines for a terminal of `width` letters (None = any): headings, units, policies, differences, cut names in full."""
    results, columns = comparison.policies, columns_of(comparison)
    names = cut_names([r.policy for r in results], name_limit(width))
    rows = [
        ["policy", *(heading for heading, *_ in columns), "verdict"],
        ["", *(unit for _, unit, *_ in columns), ""],
        *(
            [names[r.policy], *(cell(r, name, factor) for *_, name, factor in columns), r.mean("verdict") or MISSING]
            for r in results
        ),
    ]
    return [*fitted(rows, width), *_difference_lines(comparison, names, width), "", *full_names(names)]


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
    shown = [column for column in columns_of(comparison) if column[2] in DIFFERENCES]
    rows = [["", *(heading for heading, *_ in shown)]]
    for result in others:
        found = comparison.differences(result)
        rows.append([names[result.policy], *(relative(found.get(name), base.mean(name), 1, "") for _, _, name, _ in shown)])
    many = ", ± half a 95 % interval" if len(base.seeds) > 1 else ""
    return ["", f"difference to {base.policy} in per cent of it, replicate by replicate{many}", *fitted(rows, width)]
