"""``evenstep reproduce`` runs experiments of the papers, or lists them, and prints the papers' numbers next to ours.

It writes figure, data and page to ``--out``. With ``all`` an experiment that raises an `EvenstepError` does not stop the
others, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep import names
from evenstep.cli.parts import flags, outputs
from evenstep.config.number import check_at_least
from evenstep.errors import EvenstepError, InputError

if TYPE_CHECKING:
    from evenstep.experiments.reproduce import Setting
    from evenstep.report.findings import Reproduction


class Reproduce:
    summary = "run an experiment of a paper and print its numbers next to ours"
    description = (
        "Runs one experiment of the papers this project builds on. Prints the paper's numbers next to ours with 95 %\n"
        "intervals, every free constant, the substitutes for data that is not available, and where and why we differ.\n"
        "Writes the figure (SVG, PNG), its data (Parquet) and a page of all of it (HTML).\n"
        "`list` shows the experiments; `all` runs all of them and writes one page for the five papers, papers.html.\n"
        "Without --quick, `all` also writes every verdict as papers.json."
    )
    examples = (
        "evenstep reproduce list",
        "evenstep reproduce bfio-table1 --quick",
        "evenstep reproduce bfio-fig5 --trace sample:burstgpt --trace sample:azure-conv",
        "evenstep reproduce bfio-table1 --format latex --seeds 10",
        "evenstep reproduce all --quick --processes 2",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME|list|all", help="an experiment, list or all; a file of yours: mine.py")
        flags.add_values(parser, {"--quick": "run a reduced size to show that it works; marked, proves nothing"})
        flags.add_format(parser, "table", "csv", "latex", "json")
        flags.add_values(
            parser,
            {
                "--out DIR": ("where figure and data are written (default reproduced)", str, "reproduced"),
                "--seeds N": ("replicates (default 5; 2 with --quick)", int),
            },
        )
        text = "a trace, a workload YAML or sample:NAME in place of the default workload; may be given many times "
        flags.add_many(parser, "--trace", "FILE", f"{text}where an experiment takes several", default=[])
        flags.add_values(parser, {"--seed N": ("key of all draws (default 0)", int, 0)})
        flags.add_processes(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.reproduce import Setting

        if args.name == "list":
            return _list(args)
        check_at_least("evenstep reproduce", 1, args, "seeds", "processes")
        check_at_least("evenstep reproduce", 0, args, "seed")
        outputs.check_folder(args.out)
        bar = outputs.bar(args.format)
        setting = Setting(args.quick, args.seeds, tuple(args.trace), args.seed, args.processes, bar)
        if args.name == "all":
            return _all(args, setting)
        found, written = _one(args, args.name, setting)
        _print([found], args.format)
        told = f"wrote {', '.join(str(path) for path in written)}"
        is_table = args.format == "table"
        print(f"\n{told}" if is_table else told, file=sys.stdout if is_table else sys.stderr)
        return 0


command = Reproduce()


def _list(args: argparse.Namespace) -> int:
    from evenstep.report.tables import aligned

    found = {name: names.find("experiments", name) for name in names.members("experiments")}
    rows = [{"name": n, "source": e.source, "title": e.title} for n, e in found.items()]
    if args.format == "json":
        outputs.print_json({"version": 1, "experiments": rows})
    elif args.format == "csv":
        writer = csv.DictWriter(sys.stdout, ["name", "source", "title"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        print("\n".join(aligned([[*row.values()] for row in rows], left=range(3))))
    return 0


def _one(args: argparse.Namespace, name: str, setting: Setting) -> tuple[Reproduction, list[Path]]:
    """Run one experiment and write its files under ``--out``; returns the findings and the paths of the files."""
    from evenstep.experiments.reproduce import reproduce
    from evenstep.report.findings_files import write

    found = replace(reproduce(name, setting), command=args.command_line, versions=outputs.versions())
    return found, write(found, Path(args.out))


def _all(args: argparse.Namespace, setting: Setting) -> int:
    """Run all experiments, print and write their findings and one page of all; returns 1 if one failed, else 0.

    The page names those that failed. Without ``--quick`` it also writes all verdicts as JSON.
    """
    from evenstep.experiments.recorded import papers, record
    from evenstep.measure.output_file import replacing
    from evenstep.report.papers import page

    if args.trace:
        expected = "no trace: `all` uses the traces of each experiment"
        raise InputError("evenstep reproduce", "--trace", ", ".join(args.trace), expected)
    found: dict[str, Reproduction | str] = {}
    every = names.members("experiments")
    for number, name in enumerate(every, 1):
        began = time.monotonic()
        try:
            found[name] = _one(args, name, setting)[0]
        except EvenstepError as error:
            found[name] = str(error)
        ended = f"did not run: {found[name]}" if isinstance(found[name], str) else f"{time.monotonic() - began:.0f} s"
        print(f"{number}/{len(every)} {name}: {ended}", file=sys.stderr, flush=True)
    ran = [one for one in found.values() if not isinstance(one, str)]
    path = Path(args.out) / ("papers-quick.html" if args.quick else "papers.html")
    files = {path: page(papers(), found, args.command_line).encode()}
    if not args.quick:
        files[path.with_suffix(".json")] = record(ran)
    for file, text in files.items():
        with replacing(file) as out:
            out.write(text)
    _print(ran, args.format)
    print(f"wrote {' and '.join(map(str, files))}", file=sys.stdout if args.format == "table" else sys.stderr)
    return 0 if len(ran) == len(found) else 1


def _print(found: list[Reproduction], form: str) -> None:
    from evenstep.report import findings

    if form == "csv":
        texts = [findings.csv_text(one) for one in found]  # each with the same first line
        sys.stdout.write("".join(text if number == 0 else text.partition("\n")[2] for number, text in enumerate(texts)))
    elif form == "json":
        objects = [findings.json_object(one) for one in found]
        outputs.print_json(objects[0] if len(objects) == 1 else {"version": 1, "reproductions": objects})
    else:
        texts = [findings.latex_text(one) if form == "latex" else "\n".join(findings.text_lines(one)) for one in found]
        sys.stdout.write("\n\n".join(texts) + ("" if form == "latex" else "\n"))
