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
from typing import TYPE_CHECKING, Any, TextIO

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
        for line in (overload(comparison), *told):
            print(line)


def overload(comparison: Comparison) -> str:
    """Whether BF-IO's Definition 1 held: the papers' bounds assume it."""
    kept = [p for p in comparison.policies if p.mean("overloaded")]
    if len(kept) == len(comparison.policies):
        return "Overload (BF-IO Definition 1: no slot left free after a decision) held at every step."
    first = comparison.policies[0].summaries[0]
    at = f"{first['overloaded_steps']} of {first['steps']} steps of {comparison.policies[0].policy}"
    return f"Overload (BF-IO Definition 1: no slot left free after a decision) held at {at}, first replicate."


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


def lines_of(form: str) -> TextIO | None:
    """Where lines about progress go when stderr is no terminal: above the table, or nowhere beside JSON."""
    return sys.stdout if form == "table" else None


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


def check_writable(file: str | None) -> None:
    """See before a long run that a file can be written.

    Raises:
        InputError: its folder is missing or may not be written to, or it is a folder itself.
    """
    if file is None:
        return
    path = Path(file)
    if path.is_dir():
        raise InputError(file, "file", file, "a file, not a folder")
    if not path.exists() and not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise InputError(file, "folder", str(path.parent), "a folder that exists and can be written to")


def check_folder(folder: str | None) -> None:
    """See before a long run that a folder can be made and written to.

    Raises:
        InputError: it is a file, or its nearest existing parent may not be written to.
    """
    if folder is None:
        return
    path = Path(folder).absolute()
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(folder, "folder", str(nearest), "a folder that can be written to")
