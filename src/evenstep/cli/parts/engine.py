"""``evenstep compare --engine`` compares scheduling policies inside one engine."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.cli.parts import outputs
from evenstep.cli.parts.flags import need_source, settled
from evenstep.config import meaning
from evenstep.errors import InputError

if TYPE_CHECKING:
    from evenstep.experiments.compare.engine_compare import EngineOutcome
    from evenstep.measure.engine_comparison import EngineComparison

#: Attributes that argparse and the command add to the settings.
_BESIDE = {"columns", "format", "report", "records", "config", "debug", "command", "command_line", "run"}


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine`` (without a value = all defaults), ``--batch-time``, ``--bounds`` and ``--until-s`` as one group.

    A flag that is not given sets no attribute.
    """
    from evenstep.experiments.compare.engine_settings import USUAL, EngineSettings

    said = meaning(EngineSettings)
    about = (
        "compare scheduling policies inside one engine, not routing. With --engine other flags differ:\n"
        f"--policy (default {', '.join(USUAL)}), --arrivals timed|together (default timed;\n"
        "together = all requests at time zero), --load (a share of the rate that the engine serves)"
    )
    group = parser.add_argument_group("one engine", about)
    shapes = {"engine": "KEY=VALUE,...", "batch_time": "NAME[:KEY=VALUE,...]", "bounds": "NAME[:...]", "until_s": "X"}
    for name, shape in shapes.items():
        alone: dict[str, Any] = {"nargs": "?", "const": ""} if name == "engine" else {}
        flag, text = "--" + name.replace("_", "-"), said.get(name, "").rstrip(".")
        group.add_argument(flag, default=argparse.SUPPRESS, metavar=shape, help=text, **alone)


def compare(args: argparse.Namespace) -> int:
    """Compare scheduling policies inside one engine; returns the exit code, 0. `args` are those of ``evenstep compare``.

    It prints a table or JSON, and writes the report and records asked for. Records are of each policy's first replicate.

    Raises:
        InputError: a flag that only routing has, or a bad source, policy or number.
        PolicyError: a policy broke its contract.
    """
    from evenstep.experiments.compare.engine_compare import run_engine_comparison
    from evenstep.experiments.compare.engine_settings import EngineSettings, check
    from evenstep.measure.engine_comparison import to_json_object
    from evenstep.report.engine_table import table_lines

    known = {field.name for field in dataclasses.fields(EngineSettings)}
    strange = [name for name in vars(args) if name not in known | _BESIDE]
    if strange:
        flag = "--" + strange[0].replace("_", "-")
        raise InputError("evenstep compare", flag, getattr(args, strange[0]), "no such flag with --engine")
    found = settled(args, EngineSettings)
    settings = check(found.value)
    need_source("evenstep compare", settings.source)
    outputs.check_report(args.report)
    outputs.check_folder(args.records)
    fewer = found.origin["seeds"] == "default"
    outcome = run_engine_comparison(settings, fewer=fewer, progress=outputs.bar(args.format))
    comparison = outputs.described(outcome.comparison, args.command_line)
    told = _written(args, comparison, outcome)
    if args.format == "table":
        for line in table_lines(comparison, outputs.terminal_width()):
            print(line)
        outputs.tell([*_foot(comparison), *told])
    else:
        outputs.print_json(to_json_object(comparison))
        for line in told:
            print(line, file=sys.stderr)
    return 0


def _foot(comparison: EngineComparison) -> list[str]:
    """Lines below the table: requests and replicates, how the runs ended, verdicts, notes, counted events, and digests."""
    from evenstep.report.engine_table import count_lines, verdict_lines
    from evenstep.report.numbers import short

    seeds = len(comparison.policies[0].seeds)
    left = ", ".join(f"{r.policy} {short(r.mean('unfinished'))}" for r in comparison.policies)
    is_whole = all(r.mean("unfinished") == 0 for r in comparison.policies)
    end = "run to completion" if is_whole else f"stopped at a time with requests left over ({left})"
    rate = comparison.trace["requests_per_s"]
    arrivals = "all at once" if rate is None else f"{rate:.4g} a second"
    lines = [
        f"Means over {seeds} replicate{'s' if seeds > 1 else ''} of {comparison.trace['requests']:,} requests"
        f" ({arrivals}), {end}; TBT is the gap between two tokens."
    ]
    lines += [f"verdict {line}" for line in verdict_lines(comparison)]
    lines += [f"note: {note}" for note in comparison.notes]
    lines += [f"counted in {line}" for line in count_lines(comparison)]
    lines += [f"digest {result.policy}: {result.digest[:16]}" for result in comparison.policies]
    return lines


def _written(args: argparse.Namespace, comparison: EngineComparison, outcome: EngineOutcome) -> list[str]:
    """Write the report and the record tables that `args` asks for; returns lines for the user that say where they are."""
    told: list[str] = []
    first: dict[str, Any] = {r.policy: own[0] for r, own in zip(comparison.policies, outcome.runs, strict=True)}
    if args.records is not None:
        from evenstep.measure.parquet import write_run

        folder = Path(args.records)
        written = [folder / f"{index}-{outputs.file_name(name)}" for index, name in enumerate(first)]
        for place, run in zip(written, first.values(), strict=True):
            write_run(run, place)
        told += outputs.records_lines(folder, written)
    if args.report is not None:
        from evenstep.report.engine_page import page

        told.append(outputs.write_report(args.report, page(comparison, first)))
    else:
        told.append("for queues, memory, batches and latencies as pictures, add --report FILE.html")
    return told
