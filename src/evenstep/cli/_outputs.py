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

#: Heading, field of the summary, factor and decimals of each column of differences.
DIFFERENCES = (
    ("idle share, points", "idle_share", 100.0, 2),
    ("full-slot tok/s", "full_slot_tokens_per_s", 1.0, 0),
    ("makespan s", "makespan_s", 1.0, 1),
    ("TPOT mean ms", "tpot_mean_s", 1e3, 2),
    ("oldest wait s", "oldest_wait_s", 1.0, 1),
    ("energy kJ", "energy_busy_idle_j", 1e-3, 1),
)


class Rows:
    """The table on stdout, a row as soon as a policy has run all its replicates."""

    def __init__(self, asked: Sequence[Contender]) -> None:
        from evenstep.report.tables import ComparisonTable

        self._table = ComparisonTable([one.name for one in asked])
        self._runs: list[list[Run]] = []

    def add(self, contender: Contender, runs: list[Run]) -> None:
        """Print one policy."""
        from evenstep.measure.comparison import compare_runs

        if not self._runs:
            self._table.head()
        self._runs.append(runs)
        self._table.row(compare_runs(self._runs).policies[-1])
        sys.stdout.flush()

    def end(self, comparison: Comparison, told: Sequence[str]) -> None:
        """Print differences to the baseline, then everything a reader has to know."""
        for line in differences(comparison):
            print(line)
        print()
        self._table.foot(comparison)
        for line in told:
            print(line)


def differences(comparison: Comparison) -> list[str]:
    """Paired differences to the baseline, one line a policy; nothing for a single policy."""
    others = [p for i, p in enumerate(comparison.policies) if i != comparison.baseline]
    if not others:
        return []
    base = comparison.policies[comparison.baseline].policy
    many = len(comparison.seeds) > 1
    width = max(len(p.policy) for p in others)
    heading = f"difference to {base}, replicate by replicate" + (", ± half a 95 % interval" if many else "")
    lines = ["", heading, "  ".join(["".ljust(width), *(h.rjust(18) for h, *_ in DIFFERENCES)])]
    for result in others:
        found = (result.versus if comparison.baseline else result.versus_first) or {}
        cells = [_interval(found.get(field), f, d).rjust(18) for _, field, f, d in DIFFERENCES]
        lines.append("  ".join([result.policy.ljust(width), *cells]))
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
    return [f"records: {folder}/"]


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
