"""What commands print and write: rows as they finish, differences, JSON, records, the report."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evenstep.errors import InputError
from evenstep.experiments.progress import Bar
from evenstep.in_use import writes
from evenstep.measure.output_file import write_text

if TYPE_CHECKING:
    from evenstep.config import Settled
    from evenstep.experiments.compare.running import Outcome
    from evenstep.experiments.contenders import Contender
    from evenstep.measure.comparison import Compared, Comparison, PolicyResult
    from evenstep.measure.records import Run
    from evenstep.report.tables import Column

C = TypeVar("C", bound="Compared[Any]")


class Rows:
    """The table on stdout, row by row: `add` each policy in order once it has run all its replicates, then `end`.

    Args:
        asked: the policies, in order.
        columns: as in `ComparisonTable`.
        observed: the run that a decision log recorded, for a first row of its own; None without one.
    """

    def __init__(
        self, asked: Sequence[Contender], columns: Sequence[Column] | None = None, observed: PolicyResult | None = None
    ) -> None:
        from evenstep.report.tables import ComparisonTable, observed_name

        names = [one.name for one in asked]
        if observed is not None:
            names.append(observed_name(observed))
        self._table, self._observed = ComparisonTable(names, columns=columns), observed
        self._runs: list[list[Run]] = []

    def add(self, contender: Contender, runs: list[Run]) -> None:
        """Print the row of the next policy, and before the first row the headings.

        Its `runs`, by replicate, are kept, because later rows are compared with the first.
        """
        from evenstep.measure.comparison import compare_runs

        if not self._runs:
            self._table.head()
            if self._observed is not None:
                self._table.observed(self._observed)
        self._runs.append(runs)
        self._table.row(compare_runs(self._runs).policies[-1])
        sys.stdout.flush()

    def end(self, comparison: Comparison, told: Sequence[str]) -> None:
        """Print the foot of the table, a sentence on overload, a line for each policy that held requests, and `told`."""
        self._table.foot(comparison)
        tell([overload(comparison), *held(comparison), *told])


def terminal_width() -> int | None:
    """Letters of a line on stdout; None if it is no terminal, so that nothing is cut or wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def tell(lines: Iterable[str], indent: int = 0) -> None:
    """Print lines; a terminal gets them wrapped between words, what follows the first one indented."""
    width = terminal_width()
    whole_words = partial(textwrap.wrap, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        print(line if width is None else "\n".join(whole_words(line, width)))


def overload(comparison: Comparison) -> str:
    """A sentence on whether BF-IO's Definition 1 (overload) held, which the papers' bounds assume.

    It held at every step of all policies, or the sentence counts the steps of the first policy's first replicate.
    """
    said = (
        "Overload (BF-IO Definition 1: even without the requests of its most frequent prompt length, "
        "the pool still fills every free slot)"
    )
    if all(p.mean("overloaded") for p in comparison.policies):
        return f"{said} held at every step."
    first = comparison.policies[0].summaries[0]
    at = f"{first['overloaded_steps']} of {first['steps']} steps of {comparison.policies[0].policy}"
    return f"{said} held at {at}, first replicate; the papers' bounds assume it at every step."


def held(comparison: Comparison) -> list[str]:
    """A line (`held_line`) for each policy that held a request which fit an idle worker, counted over all replicates.

    Empty if no policy did.
    """
    totals = [
        (p.policy, sum(s["held_decisions"] for s in p.summaries), sum(s["decisions"] for s in p.summaries))
        for p in comparison.policies
    ]
    return [held_line(policy, count, decisions) for policy, count, decisions in totals if count]


def held_line(policy: str, count: int, decisions: int) -> str:
    """A line on how often least load decided in place of a policy that held a request: `count` of `decisions`."""
    return (
        f"{policy} held requests that fit a worker which ran nothing, at {count:,} of {decisions:,} decisions; least load "
        "sent the oldest there (--may-hold lets them wait)."
    )


def versions() -> dict[str, str]:
    """Versions of evenstep, Python and NumPy, and how kernels run (`compared.versions`)."""
    from evenstep.experiments.compare.compared import versions

    return versions()


def described(comparison: C, command: str) -> C:
    """A copy of the comparison with its origin: the command line, and this process's versions."""
    return replace(comparison, command=command, versions=versions())


def settings_object(settled: Settled[Any], value: Any) -> dict[str, Any]:
    """Every setting by name, as ``{"value": ..., "origin": ...}``; the origin is ``implied`` where another one decided it.

    `value` are the settled settings after all checks.
    """
    before = settled.value
    return {
        name: {"value": (now := getattr(value, name)), "origin": origin if now == getattr(before, name) else "implied"}
        for name, origin in settled.origin.items()
    }


def bar(form: str) -> Bar:
    """The progress bar on stderr. If that is no terminal, its lines go to stdout for the format ``table``, else nowhere."""
    return Bar(lines=sys.stdout if form == "table" else None)


def print_json(found: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout, on one line; raises ValueError for a nan or an infinity in it."""
    print(json.dumps(found, allow_nan=False))


def write_records(outcome: Outcome, names: Sequence[str], folder: Path) -> list[str]:
    """Write the record tables of every run as Parquet, in ``folder/POLICY/replicate-R``. Returns lines for the user.

    `names` are the policies, in the order of the outcome.
    """
    from evenstep.measure.parquet import write_run

    written: list[Path] = []
    for index, (name, runs) in enumerate(zip(names, outcome.runs, strict=True)):
        for replicate, run in enumerate(runs):
            written.append(folder / f"{index}-{file_name(name)}" / f"replicate-{replicate}")
            write_run(run, written[-1])
    return records_lines(folder, written)


def records_lines(folder: Path, written: Sequence[Path]) -> list[str]:
    """Lines for the user: where record tables are, and which folders next to those `written` are of an earlier command."""
    ours = {place for run in written for place in (run, *run.parents)}
    there = [*folder.glob("[0-9]*-*/"), *folder.glob("[0-9]*-*/replicate-*/")]
    older = sorted(str(place.relative_to(folder)) for place in there if place not in ours and place.parent in ours)
    left = [f"of an earlier command, and left as they were: {', '.join(older)}"] if older else []
    return [f"records: {folder}/", *left]


def answer(args: argparse.Namespace, value: Mapping[str, Any], lines: Iterable[str]) -> int:
    """Print `value` where ``--format json`` is asked for, else the lines; returns 0, the exit code for a fine end."""
    if args.format == "json":
        print_json(value)
    else:
        for line in lines:
            print(line)
    return 0


def write_report(path: str, page: str) -> str:
    """Write a page to a file, which is replaced; returns a line that says where it is. Raises as `write_text`."""
    write_text(Path(path), page)
    return f"report: {Path(path).resolve()}"


def file_name(name: str) -> str:
    """A policy's name as a file name: without folders, and with "-" for all but letters, digits and ``-_.=``."""
    return "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in Path(name).name)


def check_writable(flag: str, file: str | None) -> None:
    """Check before a long run that the file a flag names can be written; None needs no check.

    Raises:
        InputError: it is a folder or a file that the command has read, or its folder is missing or may not be written to. A
            device needs no folder. The command cannot read the file from then on (`in_use`).
    """
    if file is None:
        return
    path = Path(file)
    if path.is_dir():
        raise InputError(flag, "file", file, "a file, not a folder")
    folder = path.resolve().parent  # where the new file is written, before it replaces an old one
    if (path.is_file() or not path.exists()) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(flag, "folder", str(path.parent), "a folder that exists and can be written to")
    writes(path, flag)


def check_report(file: str | None, flag: str = "--report", *suffixes: str) -> None:
    """Check before a long run that a file is writable and has a suffix of its formats; None needs no check.

    A device such as ``/dev/stdout`` may have any name where there is one format.

    Args:
        flag: the flag that names the file, for errors.
        suffixes: with their dots, ``.html`` alone when left out; case does not count.

    Raises:
        InputError: another suffix, or as `check_writable`.
    """
    is_device = file is not None and len(suffixes) < 2 and Path(file).exists() and not Path(file).is_file()
    known = suffixes or (".html",)
    if file is not None and not is_device and Path(file).suffix.lower() not in known:
        hint = "Print the page to get a PDF." if Path(file).suffix.lower() == ".pdf" and ".html" in known else ""
        raise InputError(flag, "file", file, f"a name that ends in {' or '.join(known)}", hint)
    check_writable(flag, file)


def check_folder(folder: str | None) -> None:
    """Check before a long run that a folder can be made and written to; None needs no check.

    Raises:
        InputError: it is a file, or its nearest existing parent may not be written to.
    """
    if folder is None:
        return
    if not folder:
        raise InputError("command line", "folder", "empty", "the name of a folder", "Write . for this one.")
    path = Path(folder).absolute()
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(folder, "folder", str(nearest), "a folder that can be written to")
