"""``evenstep reproduce``: a paper's table or figure, its numbers beside ours."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from evenstep.cli._flags import add_format, add_processes


class Reproduce:
    """The command."""

    summary = "run an experiment of a paper and print its numbers beside ours"
    description = (
        "Runs one experiment of the papers this project builds on and prints the paper's numbers beside ours with 95 %\n"
        "intervals, every free constant, what stands in for data that is not to be had, where and why we differ.\n"
        "Writes the figure (SVG, PNG), the data behind it (Parquet) and a page of all of it (HTML).\n"
        "`list` shows what there is."
    )
    examples = (
        "evenstep reproduce list",
        "evenstep reproduce bfio-table1 --quick",
        "evenstep reproduce bfio-fig5 --trace sample:burstgpt --trace sample:azure-conv",
        "evenstep reproduce bfio-table1 --format latex --seeds 10",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME|list", help="an experiment, or list; a file of yours: mine.py")
        parser.add_argument(
            "--quick",
            action="store_true",
            help="a reduced size that shows that it runs; no evidence, and marked so",
        )
        add_format(parser, "table", "csv", "latex", "json")
        parser.add_argument(
            "--out",
            metavar="DIR",
            default="reproduced",
            help="where figure and data are written (default reproduced)",
        )
        parser.add_argument("--seeds", type=int, metavar="N", help="replicates (default 5; 2 with --quick)")
        parser.add_argument(
            "--trace",
            action="append",
            default=[],
            metavar="FILE",
            help="a trace, a workload YAML or sample:NAME in place of the default workload; may be given many times "
            "where an experiment takes several",
        )
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="key of all draws (default 0)")
        add_processes(parser)

    def run(self, args: argparse.Namespace) -> int:
        return _list(args) if args.name == "list" else _reproduce(args)


command = Reproduce()


def _list(args: argparse.Namespace) -> int:
    from evenstep import names

    found = {name: names.find("experiments", name) for name in names.members("experiments")}
    rows = [{"name": n, "source": e.source, "title": e.title} for n, e in found.items()]
    if args.format == "json":
        _print_json({"version": 1, "experiments": rows})
        return 0
    if args.format == "csv":
        import csv

        writer = csv.DictWriter(sys.stdout, ["name", "source", "title"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return 0
    wide, far = (max((len(row[key]) for row in rows), default=0) for key in ("name", "source"))
    for row in rows:
        print(f"{row['name']:{wide}}  {row['source']:{far}}  {row['title']}")
    return 0


def _reproduce(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from evenstep.cli._outputs import check_folder, lines_of, versions
    from evenstep.errors import InputError
    from evenstep.experiments.progress import Bar
    from evenstep.experiments.reproduce import Setting, reproduce
    from evenstep.report import findings
    from evenstep.report.findings_files import write

    for flag, value, low in (
        ("--seeds", args.seeds, 1),
        ("--seed", args.seed, 0),
        ("--processes", args.processes, 1),
    ):
        if value is not None and value < low:
            raise InputError("evenstep reproduce", flag, value, f"an integer >= {low}")
    check_folder(args.out)
    setting = Setting(
        quick=args.quick,
        seeds=args.seeds,
        traces=tuple(args.trace),
        seed=args.seed,
        processes=args.processes,
        progress=Bar(lines=lines_of(args.format)),
    )
    found = replace(reproduce(args.name, setting), command=args.command_line, versions=versions())
    written = write(found, Path(args.out))
    if args.format == "table":
        print("\n".join(findings.text_lines(found)))
    elif args.format == "csv":
        sys.stdout.write(findings.csv_text(found))
    elif args.format == "latex":
        sys.stdout.write(findings.latex_text(found))
    else:
        _print_json(findings.json_object(found))
    told = f"wrote {', '.join(str(path) for path in written)}"
    print(
        f"\n{told}" if args.format == "table" else told,
        file=sys.stdout if args.format == "table" else sys.stderr,
    )
    return 0


def _print_json(value: Any) -> None:
    from evenstep.cli._outputs import print_json

    print_json(value)
