"""``evenstep leaderboard`` ranks policies on the workloads of a board, or runs a tenth of it again as a check.

It writes page and data, and a picture if asked; ``--check`` writes none of them. The exit code is 130 after Ctrl-C, and 1
if ``--check`` finds two policies in the opposite order, with disjoint intervals in both runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep.cli.main import CHECK_FAILED, FINE, INTERRUPTED
from evenstep.cli.parts import flags, outputs
from evenstep.config.number import check_at_least
from evenstep.errors import InputError
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.experiments.leaderboard.board import Board
    from evenstep.experiments.leaderboard.table import Table


class Leaderboard:
    summary = "rank policies on every workload of a board, or check a published ranking"
    description = (
        "Runs every built-in routing policy, and those BOARD.yaml adds, on every workload of the board. It writes a page\n"
        "of ranks with 95 % intervals, its data as Parquet next to it, and a picture. With --check it runs a tenth of the\n"
        "board again. It fails if two policies come out in the opposite order, with disjoint intervals both times.\n"
        "The day of the commit says which tenth. Finished runs are kept under --cache."
    )
    examples = (
        "evenstep leaderboard examples/leaderboard.yaml",
        "evenstep leaderboard examples/leaderboard.yaml --workload burst --policy br-0 --policy jsq",
        "evenstep leaderboard examples/leaderboard.yaml --out board.md --picture board.svg --cache board.cache",
        "evenstep leaderboard examples/leaderboard.yaml --check docs/reference/leaderboard.parquet --part 3",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="BOARD.yaml", help="workloads, and the policies to rank besides the defaults")
        flags.add_values(
            parser,
            {
                "--out FILE.md": "the page; the data is FILE.parquet next to it (default the name of BOARD.yaml, here)",
                "--picture FILE.svg": "draw the picture, and show it on the page",
                "--cache DIR": "keep finished runs there, and look for them there",
                "--check FILE.parquet": "run a tenth of this published board again; write nothing",
                "--part N": (
                    "which tenth, 0 to 9 (default: days from 1970 to the commit, modulo 10; outside a checkout, "
                    "days to the date of the published board)",
                    int,
                ),
            },
        )
        flags.add_many(parser, "--workload", "NAME", "only this one; may be given many times", default=[])
        one = "only this policy: one line of the board, or a name for all its variants; may be given many times"
        flags.add_many(parser, "--policy", "NAME[:KEY=VALUE,...]", one, default=[])
        flags.add_processes(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.leaderboard.board import Board
        from evenstep.experiments.leaderboard.table import read_table
        from evenstep.experiments.sweep.runs import Interrupted

        check_at_least("evenstep leaderboard", 1, args, "processes")
        if args.check is None and args.part is not None:
            raise InputError("evenstep leaderboard", "--part", args.part, "no value without --check")
        for flag, given in (("--out", args.out), ("--picture", args.picture)):
            if args.check is not None and given is not None:
                hint = "A check writes nothing."
                raise InputError("evenstep leaderboard", flag, given, "no value with --check", hint)
        out = Path(args.out) if args.out is not None else Path(Path(args.source).stem + ".md")
        stored = read_table(Path(args.check)) if args.check is not None else None
        if stored is None:
            outputs.check_report(str(out), "--out", ".md")
            outputs.check_writable("--out", str(out.with_suffix(".parquet")))
            outputs.check_report(args.picture, "--picture", ".svg")
        outputs.check_folder(args.cache)
        asked = {"workloads": args.workload, "policies": args.policy, "cache": args.cache}
        board = Board(args.source, **asked, progress=outputs.bar("table"))
        try:
            return _made(args, board, out) if stored is None else _check(args, board, stored)
        except Interrupted as stop:
            kept = f"kept in {args.cache}" if args.cache is not None else "lost: give --cache to keep them"
            text = f"{counted(stop.made, 'run is', 'runs are')} {kept}, {counted(stop.left, 'is', 'are')} left"
            print(f"evenstep leaderboard: interrupted; {text}", file=sys.stderr)
            return INTERRUPTED


command = Leaderboard()


def _made(args: argparse.Namespace, board: Board, out: Path) -> int:
    """Run the board, print the ranks, and write the page to `out`, its data and a picture if asked; returns exit code 0."""
    from evenstep.experiments.crew import Places
    from evenstep.experiments.leaderboard.page import page, text_lines
    from evenstep.experiments.leaderboard.picture import picture
    from evenstep.experiments.leaderboard.table import Origin, commit_of, write_table
    from evenstep.measure.output_file import replacing

    commit = commit_of(Path(args.source).parent)
    cells = board.run(Places(processes=args.processes))
    origin = Origin(date.today().isoformat(), commit, args.command_line, board.file.seeds, outputs.versions())
    table = board.table(cells, origin)
    data = out.with_suffix(".parquet")
    rows = write_table(table, data)
    written = [f"{data} ({counted(rows, 'run')})", str(out)]
    shown = ""
    if args.picture is not None:
        with replacing(Path(args.picture)) as file:
            file.write(picture(table).encode())
        shown = Path(os.path.relpath(args.picture, out.parent)).as_posix()
        written.append(args.picture)
    with replacing(out) as file:
        file.write(page(table, data=data.name, picture=shown).encode())
    told = f"wrote {', '.join(written)}; {counted(board.made, 'run')} made"
    for line in [*text_lines(table, outputs.terminal_width()), "", told]:
        print(line)
    return FINE


def _check(args: argparse.Namespace, board: Board, stored: Table) -> int:
    """Run a part of a published board again and print each flipped order; returns exit code 1 if there is one, else 0."""
    from evenstep.experiments.crew import Places
    from evenstep.experiments.leaderboard.check import PARTS, changed, flips, part_of

    part = _part(args, stored, PARTS)
    known = [(cell.workload, cell.policy) for cell in stored.cells]
    both = [cell for cell in board.cells if cell in known]
    if not both:
        raise InputError(args.check, "cells", 0, "a policy and workload of this command", "Nothing was checked.")
    again = board.run(Places(processes=args.processes), part_of(both, part))
    found = flips(stored, again)
    for flip in found:
        print(flip)
    for told, cells in (
        ("not on the published board", [cell for cell in board.cells if cell not in known]),
        ("on the published board only", [cell for cell in known if cell not in board.cells]),
    ):
        if cells and not (args.policy or args.workload):
            print(f"cells {told}: {len(cells)}, e.g. {', '.join(cells[0])}: make the board anew to rank what there is")
    moved = len(changed(stored, again))
    print(
        f"part {part} of {PARTS} of the board of {stored.origin.date}: {len(again)} of {len(both)} cells run again,"
        f" {moved} with other decisions, {len(found)} orders with disjoint intervals flipped"
    )
    if found:
        print("if the change is meant, make the board anew: the same command without --check, with --out")
    return CHECK_FAILED if found else FINE


def _part(args: argparse.Namespace, stored: Table, parts: int) -> int:
    """Number of the part to run, from 0: that of ``--part``, else the day of the commit, from 1970, modulo `parts`.

    Outside a checkout it is the day of the published board. `InputError` if ``--part`` is out of range.
    """
    from evenstep.experiments.leaderboard.table import day_of

    if args.part is not None:
        if not 0 <= args.part < parts:
            raise InputError("evenstep leaderboard", "--part", args.part, f"an integer from 0 to {parts - 1}")
        return args.part
    day = day_of(Path(args.source).parent)
    if day is None:
        day = (date.fromisoformat(stored.origin.date) - date(1970, 1, 1)).days
    return day % parts
