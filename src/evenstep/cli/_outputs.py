"""What `compare` and `simulate` print and write: rows as they are ready, differences, JSON, records, the report."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep import __version__, compiled
from evenstep.errors import InputError

if TYPE_CHECKING:
    from evenstep.config import Settled
    from evenstep.experiments.compare import Outcome
    from evenstep.experiments.contenders import Contender
    from evenstep.measure.comparison import Comparison, Interval
    from evenstep.measure.records import Run

#: Heading, field of the summary, factor and decimals of each column.
COLUMNS = (
    ("idle %", "idle_share", 100.0, 2),
    ("imbalance ktok", "imbalance_envelope_tokens", 1e-3, 1),
    ("spread ktok", "imbalance_spread_tokens", 1e-3, 1),
    ("full-slot tok/s", "full_slot_tokens_per_s", 1.0, 0),
    ("makespan s", "makespan_s", 1.0, 1),
    ("TPOT ms", "tpot_mean_s", 1e3, 2),
    ("p95", "tpot_p95_s", 1e3, 2),
    ("wait s", "mean_wait_s", 1.0, 2),
    ("oldest s", "oldest_wait_s", 1.0, 1),
    ("energy kJ", "energy_busy_idle_j", 1e-3, 1),
)
#: What the table of differences shows.
DIFFERENCES = COLUMNS[:1] + COLUMNS[3:6] + COLUMNS[8:]
#: Footnote sign of a row whose predictor saw true lengths.
ORACLE = "*"


class Table:
    """A table on stdout whose rows come one by one, and what stands below it."""

    def __init__(self, asked: Sequence[Contender]) -> None:
        self._width = max(len("policy"), *(len(one.name) + len(ORACLE) for one in asked))
        self._begun = False

    def row(self, contender: Contender, runs: Sequence[Run]) -> None:
        """One policy, all replicates run."""
        from evenstep.measure.comparison import mean_over

        if not self._begun:
            print("  ".join(["policy".ljust(self._width), *(heading for heading, *_ in COLUMNS)]))
            self._begun = True
        name = contender.name + (ORACLE if runs[0].conditions.oracle else "")
        cells = [name.ljust(self._width)]
        for heading, field, factor, decimals in COLUMNS:
            value = mean_over(field, [run.summary[field] for run in runs])
            cells.append(number(value, factor, decimals).rjust(len(heading)))
        print("  ".join(cells), flush=True)

    def foot(self, comparison: Comparison, told: Sequence[str]) -> None:
        """Differences to the baseline, then everything a reader has to know."""
        for line in differences(comparison, self._width):
            print(line)
        print()
        for line in (*facts(comparison), *told):
            print(line)


def number(value: Any, factor: float, decimals: int) -> str:
    """A figure in its column's unit; a dash where a metric has no value."""
    return "-" if value is None else f"{value * factor:.{decimals}f}"


def differences(comparison: Comparison, width: int) -> list[str]:
    """Paired differences to the baseline, one line a policy; nothing for a single policy."""
    others = [p for i, p in enumerate(comparison.policies) if i != comparison.baseline]
    if not others:
        return []
    base = comparison.policies[comparison.baseline].policy
    many = len(comparison.seeds) > 1
    lines = ["", f"difference to {base}" + (", with 95 % intervals" if many else "")]
    cell = 18 if many else 15
    lines.append("  ".join(["".ljust(width), *(heading.rjust(cell) for heading, *_ in DIFFERENCES)]).rstrip())
    for result in others:
        found = (result.versus if comparison.baseline else result.versus_first) or {}
        cells = [_interval(found.get(field), f, d).rjust(cell) for _, field, f, d in DIFFERENCES]
        lines.append("  ".join([result.policy.ljust(width), *cells]))
    return lines


def facts(comparison: Comparison) -> list[str]:
    """Workload, replicates, window, what was assumed, digests."""
    first, trace, c = comparison.policies[0].summaries[0], comparison.trace, comparison.conditions
    seeds = len(comparison.seeds)
    told = "one run each" if seeds == 1 else f"{seeds} replicates each, {comparison.replicates}"
    window = comparison.policies[0].mean("window")
    said = {
        "full-slots": "from the first to the last step with 98 % of all slots busy",
        "running": "every step with a running request (fewer than 10 have 98 % of all slots busy)",
        "mixed": "full slots in some replicates, every step with a running request in others",
    }[window["kind"]]
    groups = "" if len(c.group_sizes) == 1 else f" in groups of {', '.join(map(str, c.group_sizes))}"
    at = "every step" if first["overloaded"] else f"{first['overloaded_steps']} of {first['steps']} steps"
    lines = [
        f"workload   {trace.get('name', '')}: {trace['requests']} requests, "
        f"{trace['output_tokens']} output tokens; {told}",
        f"fleet      {c.workers} workers{groups}, {c.slots} slots each, {c.arrivals} arrivals"
        + (f", pool {c.pool}" if c.arrivals == "saturated" else ""),
        f"window     {said}; makespan, waits, TPOT and energy are of the whole run, drain included",
        f"overload   BF-IO Definition 1 held at {at} of {comparison.policies[0].policy}",
    ]
    lines += [f"note       {note}" for note in comparison.notes]
    if any(p.oracle for p in comparison.policies):
        lines.append(f"{ORACLE}          its predictor saw true lengths: unreachable live, a bound to aim at")
    lines += [f"digest     {p.digest[:16]}  {p.policy}" for p in comparison.policies]
    return lines


def _interval(found: Interval | None, factor: float, decimals: int) -> str:
    if found is None:
        return "-"
    text = f"{found.value * factor:+.{decimals}f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} ±{(found.high - found.low) / 2 * factor:.{decimals}f}"


def versions() -> dict[str, str]:
    """Versions of what the figures depend on."""
    return {
        "evenstep": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "kernels": compiled.mode(),
    }


def described(outcome: Outcome, notes: Sequence[str], command: str) -> Comparison:
    """The comparison with what it was made by."""
    comparison = outcome.comparison
    return replace(comparison, command=command, versions=versions(), notes=(*comparison.notes, *notes))


def settings_object(settled: Settled[Any], value: Any) -> dict[str, Any]:
    """Every setting with its origin; ``implied`` where another setting decided it."""
    found: dict[str, Any] = {}
    for name, origin in settled.origin.items():
        now = getattr(value, name)
        changed = now != getattr(settled.value, name)
        found[name] = {"value": now, "origin": "implied" if changed else origin}
    return found


def print_json(found: Mapping[str, Any]) -> None:
    """One JSON object on stdout, and nothing else."""
    print(json.dumps(found, allow_nan=False))


def write_records(outcome: Outcome, names: Sequence[str], folder: Path) -> list[str]:
    """The record tables of every run, one folder a run; what to tell the user."""
    from evenstep.measure.parquet import write_run

    for index, (name, runs) in enumerate(zip(names, outcome.runs, strict=True)):
        for replicate, run in enumerate(runs):
            write_run(run, folder / f"{index}-{file_name(name)}" / f"replicate-{replicate}")
    return [f"records    {folder}/"]


def file_name(name: str) -> str:
    """A policy's name as a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in Path(name).name)


def check_writable(*places: str | None) -> None:
    """See before a long run that its outputs can be written.

    Raises:
        InputError: a folder that is missing or may not be written to.
    """
    for place in places:
        if place is None:
            continue
        path = Path(place)
        folder = path.parent if path.suffix else path
        while not folder.exists() and not path.suffix:
            folder = folder.parent
        if path.is_dir() and path.suffix:
            raise InputError(place, "file", place, "a file, not a folder")
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(place, "folder", str(folder), "a folder that exists and can be written to")


def warn(line: str) -> None:
    """A line on stderr."""
    print(line, file=sys.stderr)
