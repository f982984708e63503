"""Prints and writes the results of commands: tables row by row, JSON, record tables and reports."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.errors import InputError
from evenstep.experiments.progress import Bar
from evenstep.in_use import writes
from evenstep.measure.output_file import write_text

if TYPE_CHECKING:
    from evenstep.config.layers import Settled
    from evenstep.experiments.contenders import Contender
    from evenstep.load.run import Progress
    from evenstep.measure.comparison import Comparison, PolicyResult
    from evenstep.measure.records import Run
    from evenstep.report.tables import ComparisonTable


class Rows:
    """The comparison table on stdout, row by row: call `add` for each policy in order as its runs end, then `end`.

    Args:
        asked: the policies, in order.
        observed: the run that a decision log recorded, shown as the first row; None = no such row.
    """

    def __init__(self, asked: Sequence[Contender], observed: PolicyResult | None) -> None:
        self._names, self._observed = [one.name for one in asked], observed
        self._first: list[Run] = []
        self._table: ComparisonTable

    def add(self, runs: list[Run]) -> None:
        """Print the next policy's row, with headings above the first. `runs`: one a replicate; the first ones are kept."""
        from evenstep.measure.comparison import compare_runs
        from evenstep.report.tables import ComparisonTable

        compared = compare_runs([self._first, runs] if self._first else [runs])
        if not self._first:
            self._first, self._table = runs, ComparisonTable(compared, self._names, self._observed)
            self._table.head()
        self._table.row(compared.policies[-1])
        sys.stdout.flush()

    def end(self, comparison: Comparison, told: Sequence[str]) -> None:
        """Print the foot of the table, whether overload held, which policies held requests (`held`), and then `told`."""
        self._table.foot(comparison)
        tell([overload(comparison), *held(comparison), *told])


def terminal_width() -> int | None:
    """Characters in a line of the terminal on stdout; None if stdout is no terminal, so that nothing is cut or wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def tell(lines: Iterable[str], indent: int = 0) -> None:
    """Print lines on stdout; a terminal gets them wrapped between words, continuation lines indented by `indent` spaces."""
    width = terminal_width()
    whole_words = partial(textwrap.wrap, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        print(line if width is None else "\n".join(whole_words(line, width)))


def overload(comparison: Comparison) -> str:
    """A sentence that says whether overload (BF-IO Definition 1), which the papers' bounds assume, held at every step.

    If not, it counts the steps at which overload held in the first policy's first replicate.
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
    """A `held_line`, over all replicates, for each policy whose held requests least load sent to idle workers; maybe []."""
    totals = [
        (p.policy, sum(s["held_decisions"] for s in p.summaries), sum(s["decisions"] for s in p.summaries))
        for p in comparison.policies
    ]
    return [held_line(policy, count, decisions) for policy, count, decisions in totals if count]


def held_line(policy: str, count: int, decisions: int) -> str:
    """A line for the user: `policy` held requests that fit an idle worker, so least load made `count` of its `decisions`."""
    return (
        f"{policy} held requests that fit a worker which ran nothing, at {count:,} of {decisions:,} decisions; least load "
        "sent the oldest there (--may-hold lets them wait)."
    )


def versions() -> dict[str, str]:
    """Versions under ``evenstep``, ``python`` and ``numpy``, and under ``kernels`` how kernels run."""
    from evenstep.experiments.compare.compared import versions

    return versions()


def settings_object(settled: Settled[Any], value: Any) -> dict[str, Any]:
    """Every setting by name, as ``{"value": ..., "origin": ...}``, for JSON.

    `value` holds the settings after all checks. A setting that the checks changed has the origin ``implied``.
    """
    before = settled.value
    return {
        name: {"value": (now := getattr(value, name)), "origin": origin if now == getattr(before, name) else "implied"}
        for name, origin in settled.origin.items()
    }


def bar(form: str) -> Bar:
    """A progress bar on stderr. If stderr is not a terminal, lines go to stdout for the format ``table``, else nowhere."""
    return Bar(lines=sys.stdout if form == "table" else None)


class LoadBar(Bar):
    """A progress bar on stderr, from the first `draw` to `end`; if stderr is not a terminal, nothing is shown."""

    def draw(self, at: Progress, name: str = "") -> None:
        """Draw the progress of a run, with `name` before it. The first call, and the first after `end`, starts a new bar."""
        if self._bar is None:
            self.begin(at.total)
        if self._bar is not None:
            rate = at.tokens / at.now_s if at.now_s > 0 else 0.0
            failed = f", {at.failed:,} failed" if at.failed else ""
            said = f"{name}{': ' if name else ''}{at.running:,} under way, {rate:,.0f} tokens/s{failed}"
            self._bar.update(self._task, completed=at.done, description=said, refresh=True)


def print_json(found: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout, on one line. An infinity in it is an `InputError`, a nan a ValueError."""
    try:
        text = json.dumps(found, allow_nan=False)
    except ValueError:
        constants = set[str]()
        json.loads(json.dumps(found), parse_constant=constants.add)
        if "NaN" in constants:
            raise
        hint = "A time, load or length of this command is too large."
        raise InputError("--format json", "a figure", "infinite", "figures that are finite numbers", hint) from None
    print(text)


def write_records(folder: Path, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Write the record tables of runs as Parquet. Returns lines for the user that say where the tables are.

    They also name folders there that are of an earlier command.

    Args:
        folder: a run's tables are in ``folder/INDEX-POLICY/NAME``; INDEX counts policies from 0.
        runs: by policy, its runs by NAME; an empty NAME is no folder.
    """
    from evenstep.measure.parquet import write_run

    written: list[Path] = []
    for index, (policy, own) in enumerate(runs.items()):
        for name, run in own.items():
            written.append(folder / f"{index}-{file_name(policy)}" / name)
            write_run(run, written[-1])
    ours = {place for run in written for place in (run, *run.parents)}
    there = [*folder.glob("[0-9]*-*/"), *folder.glob("[0-9]*-*/replicate-*/")]
    older = sorted(str(place.relative_to(folder)) for place in there if place not in ours and place.parent in ours)
    left = [f"of an earlier command, and left as they were: {', '.join(older)}"] if older else []
    return [f"records: {folder}/", *left]


def answer(args: argparse.Namespace, value: Mapping[str, Any], lines: Iterable[str], told: Iterable[str] = ()) -> int:
    """Print `value` as JSON if ``--format json`` is set, else print the lines; returns the exit code, 0.

    Then the lines `told` follow, on stderr after JSON.
    """
    if args.format == "json":
        print_json(value)
    else:
        for line in lines:
            print(line)
    for line in told:
        print(line, file=sys.stderr if args.format == "json" else sys.stdout)
    return 0


def remark(sentences: Iterable[str]) -> None:
    """Print sentences on what the user asked for, each a line on stderr."""
    for sentence in sentences:
        print(sentence, file=sys.stderr)


def write_report(path: str, page: str) -> str:
    """Write a page to a file, replacing an old one; returns a line that says where it is. `InputError` if that fails."""
    write_text(Path(path), page)
    return f"report: {Path(path).resolve()}"


def file_name(name: str) -> str:
    """A policy's name as a file name: of a path only the last part, and "-" for all but letters, digits and ``-_.=``."""
    return "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in Path(name).name)


def check_writable(flag: str, file: str | None) -> None:
    """Check before a long run that the output file of a flag can be written; None passes.

    From then on the command cannot read this file (`in_use`). A device needs no writable folder. `InputError` for a folder,
    a file that the command has read, or a file whose folder is missing or not writable.
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
    """Check before a long run that an output file is writable and has one of the suffixes; None passes.

    A device such as ``/dev/stdout`` may have any name if there is only one suffix.

    Args:
        flag: names the file in errors.
        suffixes: with their dots, in lower case; ``.html`` if left out. Case of the file's suffix does not count.

    Raises:
        InputError: another suffix, or a file that cannot be written or that the command has read (`check_writable`).
    """
    is_device = file is not None and len(suffixes) < 2 and Path(file).exists() and not Path(file).is_file()
    known = suffixes or (".html",)
    if file is not None and not is_device and Path(file).suffix.lower() not in known:
        hint = "Print the page to get a PDF." if Path(file).suffix.lower() == ".pdf" and ".html" in known else ""
        raise InputError(flag, "file", file, f"a name that ends in {' or '.join(known)}", hint)
    check_writable(flag, file)


def check_folder(folder: str | None) -> None:
    """Check before a long run that a folder exists or can be made, and is writable, else raise `InputError`; None passes."""
    if folder is None:
        return
    if not folder:
        raise InputError("command line", "folder", "empty", "the name of a folder", "Write . for this one.")
    path = Path(folder).absolute()
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(folder, "folder", str(nearest), "a folder that can be written to")
