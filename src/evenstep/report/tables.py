"""A comparison as a table in the terminal, a row a policy; each is printed as soon as the policy has run."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TextIO

from rich.console import Console
from rich.text import Text

from evenstep.measure.comparison import Comparison, Interval, PolicyResult
from evenstep.report.numbers import MISSING, percent, relative, short
from evenstep.wording import counted

ORACLE_NOTE = "* is shown true output lengths, which no live router has: what that policy could do with perfect predictions."
#: Between two columns.
GAP = "  "
#: Letters of a name that fit a table on any terminal.
_NAME = 30


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Rows of texts, equally long, as lines: columns with an index in `left` padded flush left, the others flush right."""
    wide = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    padded = ([x.ljust(w) if c in left else x.rjust(w) for c, (x, w) in enumerate(zip(r, wide, strict=True))] for r in rows)
    return [GAP.join(cells).rstrip() for cells in padded]


def fitted(rows: Sequence[Sequence[str]], width: int | None, left: Collection[int] = (0,), keys: int = 1) -> list[str]:
    """`aligned` rows in parts (`split`), one below the other, that fit lines of `width` letters; None = any width."""
    lines: list[str] = []
    for shown in split([max(len(row[c]) for row in rows) for c in range(len(rows[0]))], width, keys):
        part = aligned([[row[c] for c in shown] for row in rows], [n for n, c in enumerate(shown) if c in left])
        lines += ["", *part] if lines else part
    return lines


def split(wide: Sequence[int], width: int | None, keys: int = 1) -> list[list[int]]:
    """Indices of columns `wide` letters wide, in parts that fit lines of `width` letters; None = any width and one part.

    Columns that do not fit follow in the next part, after the same first `keys` columns; each part has one at least.
    """
    taken = [len(GAP) + letters for letters in wide]
    room = math.inf if width is None else width + len(GAP) - sum(taken[:keys])
    parts, begin = list[list[int]](), keys
    while begin < len(wide):
        end = begin + 1
        while end < len(wide) and sum(taken[begin : end + 1]) <= room:
            end += 1
        parts.append([*range(keys), *range(begin, end)])
        begin = end
    return parts


def name_limit(width: int | None) -> int | None:
    """Most letters of a name in a table on a terminal of `width` letters; None = any number."""
    return None if width is None else max(_NAME, width // 3)


def cut_names(names: Sequence[str], most: int | None) -> dict[str, str]:
    """Name -> the name cut to `most` letters (None = uncut); a cut one ends in its number in `names`, from 1, as ``[3]``."""
    found: dict[str, str] = {}
    for place, name in enumerate(names, 1):
        mark = f"… [{place}]"
        found[name] = name if most is None or len(name) <= most else name[: most - len(mark)] + mark
    return found


def full_names(cut: Mapping[str, str]) -> list[str]:
    """A line ``[number] name`` for each name that `cut_names` has cut."""
    return [f"[{place}] {name}" for place, (name, shown) in enumerate(cut.items(), 1) if shown != name]


def mean_text(found: Interval | None, factor: float = 1.0) -> str:
    """A mean with half its interval, both times `factor`: ``12.3 ±0.4``; ``12.3`` without ends; `MISSING` if None or nan."""
    if found is None or math.isnan(found.value):
        return MISSING
    text, half = short(found.value * factor), found.half
    if half is None:
        return text
    return f"{text} ±{short(half * factor if half > 1e-9 * abs(found.value) else 0.0, 2)}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a text table."""

    heading: str  # first line above it
    unit: str  # second line above it
    field: str  # name of a numeric field of the summaries
    width: int  # its width, characters
    scale: float = 1.0  # factor from the field's unit to `unit`; used by a ``figure`` only
    #: of its cells: a ``figure``, a ``share`` in per cent, or the ``change`` in per cent of the first policy
    kind: Literal["figure", "share", "change"] = "figure"

    def cell(self, result: PolicyResult, first: PolicyResult) -> str:
        """The text of one policy's cell: mean over replicates, or `versus_first` in per cent of the mean of `first`.

        A change reads "baseline" if `versus_first` is None. A cell without a value, or a change from 0, reads "-".
        """
        if self.kind == "change":
            found = result.versus_first
            return "baseline" if found is None else relative(found.get(self.field), first.mean(self.field))
        value = result.mean(self.field)
        return percent(value) if self.kind == "share" else short(None if value is None else value * self.scale)


#: All columns, in the order printed (`columns_of`); a narrow terminal leaves out those named in `_SPARE`, in that order.
COLUMNS: tuple[Column, ...] = (
    Column("barrier", "% of time", "idle_time_share", 9, kind="share"),
    Column("worth", "tokens/s", "barrier_tokens_per_s", 8),
    Column("hits", "% prompt", "prefix_hit_share", 8, kind="share"),
    Column("imbalance", "tokens", "imbalance_envelope_tokens", 10),
    Column("spread", "tokens", "imbalance_spread_tokens", 8),
    Column("full slots", "tokens/s", "full_slot_tokens_per_s", 10),
    Column("vs first", "full slots", "full_slot_tokens_per_s", 14, kind="change"),
    Column("tokens/s", "whole run", "tokens_per_s", 9),
    Column("makespan", "s", "makespan_s", 9),
    Column("TPOT p95", "ms", "tpot_p95_s", 8, 1e3),
    Column("TTFT p95", "s", "ttft_p95_s", 8),
    Column("SLO met", "%", "slo_share", 7, kind="share"),
    Column("goodput", "requests/s", "goodput_requests_per_s", 10),
    Column("oldest wait", "s", "oldest_wait_s", 11),
    Column("energy", "kJ", "energy_busy_idle_j", 9, 1e-3),
)
#: Unit of TTFT in runs without prefill time.
NO_PREFILL = "s, no prefill"
_SPARE = ("spread", "worth", "TTFT p95", "energy", "tokens/s", "TPOT p95", "makespan", "imbalance")


def columns_of(*, prefix_hits: bool = False, slo: bool = False, prefill: bool = True) -> tuple[Column, ...]:
    """`COLUMNS`, those of prefix caches or an objective if asked for. Without `prefill` time TTFT's unit says so."""
    kept = {"prefix_hit_share": prefix_hits, "slo_share": slo, "goodput_requests_per_s": slo}
    found = (column for column in COLUMNS if kept.get(column.field, True))
    said = {} if prefill else {"unit": NO_PREFILL, "width": len(NO_PREFILL)}
    return tuple(replace(column, **said) if column.field == "ttft_p95_s" else column for column in found)


class ComparisonTable:
    """Prints a comparison row by row: call `head`, then `row` for each policy, and `foot`.

    Args:
        comparison: of the first policies at least; its summaries and conditions say which columns the table has. Those in
            `_SPARE` for which a terminal has no room are left out.
        names: of all policies. They set the width of the first column, where long ones are cut.
        observed: the recorded run, shown as the first row; None = no such row.
        stream: None = stdout. Colour only on a terminal or with ``FORCE_COLOR`` on stdout, and never with ``NO_COLOR``.
    """

    def __init__(
        self, comparison: Comparison, names: Sequence[str], observed: PolicyResult | None, stream: TextIO | None = None
    ) -> None:
        known, prefill = comparison.policies[0].summaries[0], comparison.conditions.prefill
        wanted = columns_of(prefix_hits="prefix_hit_share" in known, slo="slo_share" in known, prefill=prefill)
        self._observed = observed
        if observed is not None:
            names = [*names, f"observed: {observed.policy}"]
        out = stream or sys.stdout
        # in a notebook rich would show each line as an output of the cell, and take any stream for a terminal
        terminal = out.isatty() if stream is not None else None
        self._console = Console(file=out, highlight=False, soft_wrap=True, force_jupyter=False, force_terminal=terminal)
        self._terminal = self._console.width if out.isatty() else None
        width = self._terminal or 10_000
        longest = max(12, *(len(n) + 1 for n in names))
        self._columns = list(wanted)
        for spare in _SPARE:
            if min(longest, _NAME) + sum(c.width + len(GAP) for c in self._columns) <= width:
                break
            self._columns = [c for c in self._columns if c.heading != spare]
        self._left_out = [c.heading for c in wanted if c not in self._columns]
        room = width - sum(c.width + len(GAP) for c in self._columns)
        self._name_width = max(12, min(room, longest))
        self._names = cut_names(names, self._name_width - 1)
        self._first: PolicyResult | None = None

    def head(self) -> None:
        """Print the headings and the units of the columns, and the row of the recorded run."""
        self._line("policy", [c.heading for c in self._columns], "bold")
        self._line("", [c.unit for c in self._columns], "dim")
        if (recorded := self._observed) is not None:
            cells = [c.cell(recorded, recorded).replace("baseline", "observed") for c in self._columns]
            self._line([*self._names.values()][-1], cells, "bold")

    def row(self, result: PolicyResult) -> None:
        """Print one policy's row, an oracle with ``*`` and in yellow. Print the comparison's first policy first."""
        self._first = self._first or result
        name = self._names[result.policy] + ("*" if result.oracle else "")
        self._line(name, [c.cell(result, self._first) for c in self._columns], "yellow" if result.oracle else "")

    def foot(self, comparison: Comparison) -> None:
        """Print the `differences` to the baseline, then `foot_lines`, which explain the figures and give the digests."""
        for line in (*differences(comparison, self._terminal), ""):
            self._console.print(Text(line))
        for line in (*self._cut(), *foot_lines(comparison)):  # wrapped at words on a terminal
            self._console.print(Text(line, style="dim"), soft_wrap=self._terminal is None)

    def _cut(self) -> list[str]:
        """Lines with the full names and the columns that the tables above do not show."""
        least = min(self._name_width - 1, name_limit(self._terminal) or self._name_width)
        lines = full_names(cut_names([*self._names], least))
        if self._left_out:
            lines.append(f"Not shown at this width: {', '.join(self._left_out)}; a wider terminal or a file gets them.")
        return lines

    def _line(self, name: str, cells: Sequence[str], style: str) -> None:
        """Print a name and cells in the widths of their columns."""
        padded = [cell.rjust(c.width) for cell, c in zip(cells, self._columns, strict=True)]
        self._console.print(Text(GAP.join([name.ljust(self._name_width), *padded]).rstrip(), style=style))


def print_comparison(comparison: Comparison, stream: TextIO | None = None) -> None:
    """Print the whole table of a finished comparison, recorded run first, with its foot; to stdout if `stream` is None."""
    observed = None if comparison.observed is None else comparison.observed.result
    table = ComparisonTable(comparison, [p.policy for p in comparison.policies], observed, stream)
    table.head()
    for result in comparison.policies:
        table.row(result)
    table.foot(comparison)


#: Heading, unit, field, factor and decimals of each column of differences, the most important first. Fields that summaries
#: lack have no column.
DIFFERENCES = (
    ("barrier time", "points", "idle_time_share", 100.0, 2),
    ("full slots", "tokens/s", "full_slot_tokens_per_s", 1.0, 0),
    ("prefix hits", "points", "prefix_hit_share", 100.0, 2),
    ("oldest wait", "s", "oldest_wait_s", 1.0, 1),
    ("TPOT mean", "ms", "tpot_mean_s", 1e3, 2),
    ("makespan", "s", "makespan_s", 1.0, 1),
    ("energy", "kJ", "energy_busy_idle_j", 1e-3, 1),
)


def differences(comparison: Comparison, width: int | None = None) -> list[str]:
    """Paired differences, policy minus baseline, as lines: an empty one, a title, headings, units, and one for each policy.

    Shares differ in percentage points. No lines for a single policy. Columns beyond `width` letters follow below (`fitted`),
    and long names are cut; None = neither.
    """
    others = [p for i, p in enumerate(comparison.policies) if i != comparison.baseline]
    if not others:
        return []
    base = comparison.policies[comparison.baseline].policy
    many = len(comparison.seeds) > 1
    heading = f"difference to {base}, replicate by replicate" + (", ± half a 95 % interval" if many else "")
    names = cut_names([p.policy for p in comparison.policies], name_limit(width))
    columns = [["", "", *(names[p.policy] for p in others)]]
    known = comparison.policies[0].summaries[0]
    for name, unit, field, factor, decimals in (one for one in DIFFERENCES if one[2] in known):
        found = [comparison.differences(p).get(field) for p in others]
        columns.append([name, unit, *(_difference(one, factor, decimals) for one in found)])
    return ["", heading, *fitted([*zip(*columns, strict=True)], width)]


def _difference(found: Interval | None, factor: float, decimals: int) -> str:
    """A difference with half its interval, both times `factor`, as text; more decimals if these show only zeros."""
    if found is None:
        return "-"
    half = None if found.half is None else found.half * factor
    size = half or abs(found.value * factor)
    needed = -math.floor(math.log10(size)) if 0 < size < math.inf else 0
    if needed <= 6:  # a smaller difference is rounding
        decimals = max(decimals, needed)
    return f"{found.value * factor:+.{decimals}f}" + ("" if half is None else f" ±{half:.{decimals}f}")


#: Metrics by which the simulator is judged (`ObservedRun.error`) -> their names in `error_sentence`.
JUDGED = {
    "tokens_per_s": "tokens/s",
    "makespan_s": "makespan",
    "tpot_mean_s": "TPOT mean",
    "tpot_p95_s": "TPOT p95",
    "ttft_mean_s": "TTFT mean",
    "mean_wait_s": "mean wait",
    "oldest_wait_s": "oldest wait",
    "idle_time_share": "idle time",
}


def error_sentence(comparison: Comparison) -> str:
    """A sentence on the error (simulated minus observed) of a simulation of the recorded run; empty without such a run."""
    observed = comparison.observed
    if observed is None or not observed.error:
        return ""
    parts: list[str] = []
    for name, found in observed.error.items():
        real, ours = found["observed"], found["simulated"]
        if name.endswith("_share"):
            change = f"{100 * (ours - real):+.2f} points"
        elif name.endswith("wait_s") or name.startswith("ttft"):  # near 0 below saturation: a share says little
            change = f"{ours - real:+.3f} s"
        else:
            change = "-" if found["error"] is None else f"{100 * found['error']:+.1f} %"
        parts.append(f"{JUDGED[name]} {change}")
    fleet = " on the log's own fleet" if observed.overridden else ""
    twin = f"simulated {observed.result.policy}{fleet}, first replicate, against the observed run"
    return f"Error of the simulator ({twin}): {', '.join(parts)}."


def foot_lines(comparison: Comparison) -> list[str]:
    """Lines below the table: oracles, fleet, recorded run, steady window, replicates, bounds, notes, short digests."""
    lines = [ORACLE_NOTE] if any(p.oracle for p in comparison.policies) else []
    lines.append(fleet_sentence(comparison))
    if comparison.observed is not None:
        lines += [*comparison.observed.said, *filter(None, [error_sentence(comparison)])]
    lines += [window_sentence(comparison), replicates_sentence(comparison)]
    even = comparison.yardsticks.get("even_full_slot_tokens_per_s")
    bound = comparison.yardsticks.get("policy_free_bound_s")
    if even is not None and bound is not None:
        lines.append(f"No policy can pass {short(even)} tokens/s with all slots full, nor finish before {short(bound)} s.")
    lines += comparison.notes
    lines += [f"digest {p.digest[:16]}  {p.policy}" for p in comparison.policies]
    return lines


#: `Conditions.arrivals` -> a clause on how requests arrive.
_ARRIVALS = {
    "saturated": "a pool of {pool:,} waiting requests is kept full, and times of arrival are not used",
    "timed": "requests arrive at their times",
    "closed": "each session or user sends its next request after the last answer",
}


def fleet_sentence(comparison: Comparison) -> str:
    """A sentence on the simulated fleet, its step-time law, and the arrivals."""
    found = comparison.conditions
    same = found.slots_total == found.slots * found.workers
    slots = f"each with {counted(found.slots, 'slot')}" if same else f"with {found.slots_total:,} slots in all"
    costs = sorted({1e3 * min(found.overhead_s), 1e3 * max(found.overhead_s)})
    law = f"a step takes {' to '.join(map(short, costs))} ms"
    if not math.isnan(found.seconds_per_token):
        law += f" and {short(1e6 * found.seconds_per_token)} us for each KV token of the heaviest worker"
    else:
        law += " and the time that its law gives for the slowest worker"
    arrivals = _ARRIVALS[found.arrivals].format(pool=found.pool)
    fleet = f"{counted(found.workers, 'worker')}, {slots}; {counted(len(found.group_sizes), 'barrier group')}"
    return f"Fleet: {fleet}; {law}; {arrivals}."


def window_sentence(comparison: Comparison) -> str:
    """A sentence on the steps over which barrier time and imbalance are averaged, or that their kind differs by run."""
    kinds = {p.mean("window")["kind"] for p in comparison.policies}
    if kinds == {"full-slots"}:
        return (
            "Barrier time and imbalances are means from the first to the last step with 98 % of all slots busy;"
            " throughput, makespan, latencies and waits are of the whole run, warm-up and drain included."
        )
    if kinds == {"running"}:
        return "Slots were hardly ever full: barrier time and imbalances are means over all steps with a running request."
    return "Some runs had their slots full, some had not: barrier times and imbalances are over different kinds of steps."


def replicates_sentence(comparison: Comparison) -> str:
    """A sentence that tells how replicates differ and what their intervals are, or that one replicate has no interval."""
    seeds = len(comparison.seeds)
    if seeds == 1:
        return "One replicate: no intervals."
    made = {
        "rotated": f"{seeds} replicates: the trace rotated by keyed offsets, the first one not",
        "drawn anew": f"{seeds} replicates: the workload drawn anew for each",
    }.get(comparison.replicates, f"{seeds} replicates")
    return f"{made}; ± is half a 95 % t-interval of the differences, replicate by replicate."
