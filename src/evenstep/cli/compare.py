"""``evenstep compare`` compares routing policies on one workload, or scheduling policies inside one engine.

It prints paired differences as a table or JSON; flags add a report and records. An engine, by ``--engine`` or in the
settings file, chooses scheduling policies. Without one, a decision log as source also sets fleet, step-time law and policy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.cli.parts import flags, outputs
from evenstep.config.fields import meaning
from evenstep.errors import InputError
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.config.layers import Settled
    from evenstep.experiments.compare.observed import FromLog
    from evenstep.experiments.settings import CompareSettings
    from evenstep.measure.engine_comparison import EngineComparison
    from evenstep.measure.engine_records import EngineRun

#: Attributes that argparse and the command add to the settings.
_BESIDE = {"columns", "format", "report", "records", "config", "document", "debug", "command", "command_line", "run"}


class Compare:
    summary = "compare routing policies on a fleet, or scheduling policies inside one engine"
    description = (
        "Simulates every policy on the same requests with the same random numbers, and prints the time that each loses at\n"
        "the barrier. Differences to a baseline are paired and have 95 % intervals. Options of a policy follow its name:\n"
        "bf-io:horizon=20,discount=0.9,predictor=oracle. A policy may also be a file: my_policy.py.\n"
        "Policies have the constants of their papers. Those that can starve a request also have an age bound, which the\n"
        "papers lack; age_limit=0 switches it off, as in br-0:age_limit=0. See evenstep policy show NAME.\n"
        "FILE may be a decision log of a gateway. It sets fleet, step-time law, arrival times and policy; flags override\n"
        "it. The recorded run gets a row of its own, and the command prints how far the simulator is from it.\n"
        "With --engine one engine is simulated, and the policies are those that form its batches."
    )
    examples = (
        "evenstep compare sample:azure-conv",
        "evenstep compare trace.csv --policy fcfs --policy br-0 --report report.html",
        "evenstep compare trace.csv --arrivals timed --load 0.85 --policy jsq --policy examples/my_policy.py",
        "evenstep compare lengths.csv --rate 12 --workers 32 --groups 16,16 --seeds 5 --format json",
        "evenstep compare sessions.jsonl --arrivals closed --sessions 64",
        "evenstep compare --config examples/compare.yaml",
        "evenstep compare decisions.evlog --policy br-0 --policy best",
        "evenstep compare sample:azure-conv --engine kv-tokens=20000 --load 0.95 --policy sarathi --report engine.html",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.experiments.settings import USUAL, CompareSettings

        flags.add_source(parser)
        text = f"a policy to compare; may be given many times (default {', '.join(USUAL)})"
        flags.add_many(parser, "--policy", "NAME[:KEY=VALUE,...]", text, dest="policies")
        flags.add_flags(parser, CompareSettings, leave_out=("source", "policies"))
        _add_engine_flags(parser)
        flags.add_format(parser)
        parser.add_argument("--report", metavar="FILE.html", help="write a self-contained HTML report")
        parser.add_argument("--records", metavar="DIR", help="write the record tables of every run as Parquet")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.config.layers import Layer
        from evenstep.experiments.compare.observed import from_log, is_log
        from evenstep.experiments.settings import USUAL, CompareSettings, check_used, checked

        document = flags.document_of(args)
        in_file = {} if document is None else document.values
        if hasattr(args, "engine") or "engine" in in_file:
            return _compare_engine(args)
        for name in ("batch_time", "bounds", "until_s"):
            if hasattr(args, name):
                flag, hint = "--" + name.replace("_", "-"), "Name an engine, or leave it out."
                raise InputError("evenstep compare", flag, getattr(args, name), "no such flag without --engine", hint)
        source = getattr(args, "source", None) or str(in_file.get("source", ""))
        log = from_log(source) if source and is_log(source) else None
        layer = None
        if log is not None:
            policies = [log.policy, *(name for name in USUAL if name != log.policy)]
            layer = Layer(log.origin, {"policies": policies, **log.layer({*vars(args), *in_file})})
        found = flags.settled(args, CompareSettings, layer)
        settings = checked(found)
        check_used(found)
        if log is not None and log.policy not in settings.policies:  # simulated as well, for the error of the simulator
            settings = replace(settings, policies=[log.policy, *settings.policies])
        return _compare(args, found, settings, log)


command = Compare()


def _compare(
    args: argparse.Namespace, found: Settled[CompareSettings], settings: CompareSettings, log: FromLog | None
) -> int:
    """Compare routing policies, print the table or JSON, and write the files `args` asks for; returns the exit code, 0."""
    from evenstep.experiments.compare.compared import SAMPLES, STEPS
    from evenstep.experiments.compare.observed import row_of, with_observed
    from evenstep.experiments.compare.running import run_comparison
    from evenstep.experiments.contenders import contenders
    from evenstep.experiments.settings import check_fits, idle
    from evenstep.experiments.sources import plan_of
    from evenstep.measure.comparison import to_json_object
    from evenstep.report.html import page

    flags.need_source("evenstep compare", settings.source)
    outputs.check_report(args.report)
    outputs.check_folder(args.records)
    observed = None if log is None else row_of(log, settings.objective())
    asked = contenders(settings.policies)
    plan = plan_of(
        settings,
        fewer=found.origin["seeds"] == "default",
        records=args.report is not None,
        all_records=args.records is not None,
        most_steps=STEPS if args.records is None else 0,
        samples=SAMPLES if args.report is not None else 0,
    )
    check_fits(found, plan.source)
    outputs.remark(idle(found, settings.arrivals))
    rows = outputs.Rows(asked, observed) if args.format == "table" else None
    comparison, runs = run_comparison(
        plan,
        asked,
        baseline=settings.baseline,
        processes=settings.processes,
        progress=outputs.bar(args.format),
        on_contender=rows.add if rows is not None else lambda runs: None,
    )
    comparison = replace(comparison, command=args.command_line, versions=outputs.versions())
    if log is not None and observed is not None:
        comparison = with_observed(comparison, log, observed, settings, log.overridden(found.origin))
    each = [{f"replicate-{index}": run for index, run in enumerate(own)} for own in runs]
    kept = dict(zip([result.policy for result in comparison.policies], each, strict=True))
    told = _written(args, comparison, kept, page, "load bands, time lost at the barrier and waits by prompt size")
    if rows is not None:
        rows.end(comparison, told)
    else:
        outputs.print_json({**to_json_object(comparison), "settings": outputs.settings_object(found, settings)})
    return 0


def _written(
    args: argparse.Namespace, comparison: Any, kept: Mapping[str, Mapping[str, Any]], page: Callable[..., str], more: str
) -> list[str]:
    """Write the report and the record tables that `args` asks for; returns lines for the user that say where they are.

    Args:
        comparison, page: the comparison, and the page of it and of each policy's first run.
        kept: the runs to record, as for `outputs.write_records`.
        more: names what a report would show, for the hint that is printed without one.
    """
    told: list[str] = []
    if args.records is not None:
        told += outputs.write_records(Path(args.records), kept)
    if args.report is None:
        return [*told, f"for {more}, add --report FILE.html"]
    first = {policy: next(iter(own.values())) for policy, own in kept.items()}
    return [*told, outputs.write_report(args.report, page(comparison, first))]


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
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
        alone: dict[str, Any] = {}
        if name == "engine":
            alone = {"nargs": "?", "const": "", "action": flags.Once, "hint": "Write KEY=VALUE,KEY=VALUE."}
        flag, text = "--" + name.replace("_", "-"), said.get(name, "").rstrip(".")
        group.add_argument(flag, default=argparse.SUPPRESS, metavar=shape, help=text, **alone)


def _compare_engine(args: argparse.Namespace) -> int:
    """Compare scheduling policies inside one engine; returns the exit code, 0.

    It prints a table or JSON, and writes the report and records asked for. Records are of each policy's first replicate.
    `InputError` for a flag that only routing has, or a bad source, policy or number; `PolicyError` for a policy that breaks
    its contract.
    """
    from evenstep.experiments.compare.engine_compare import run_engine_comparison
    from evenstep.experiments.compare.engine_settings import EngineSettings, check, idle
    from evenstep.experiments.notation import slo_of
    from evenstep.measure.engine_comparison import compare_engine_runs, to_json_object
    from evenstep.report.engine_page import page
    from evenstep.report.engine_table import EngineTable

    known = {field.name for field in fields(EngineSettings)}
    strange = [name for name in vars(args) if name not in known | _BESIDE]
    if strange:
        flag = "--" + strange[0].replace("_", "-")
        raise InputError("evenstep compare", flag, getattr(args, strange[0]), "no such flag with --engine")
    found = flags.settled(args, EngineSettings)
    settings = check(found.value)
    flags.need_source("evenstep compare", settings.source)
    outputs.check_report(args.report)
    outputs.check_folder(args.records)
    fewer = found.origin["seeds"] == "default"
    outputs.remark(idle(settings))
    table = EngineTable(settings.policies, outputs.terminal_width())

    def show(runs: list[EngineRun]) -> None:
        if args.format == "table":
            (result,) = compare_engine_runs([runs], slo=slo_of(settings.slo)).policies
            print(*table.row(result), sep="\n", flush=True)

    bar = outputs.bar(args.format)
    comparison, runs = run_engine_comparison(settings, fewer=fewer, progress=bar, on_policy=show)
    comparison = replace(comparison, command=args.command_line, versions=outputs.versions())
    kept = {result.policy: {"": own[0]} for result, own in zip(comparison.policies, runs, strict=True)}
    told = _written(args, comparison, kept, page, "queues, memory, batches and latencies as pictures")
    if args.format == "table":
        print(*table.foot(comparison), sep="\n")
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
        f"Means over {counted(seeds, 'replicate')} of {counted(comparison.trace['requests'], 'request')}"
        f" ({arrivals}), {end}; TBT is the gap between two tokens."
    ]
    lines += [f"verdict {line}" for line in verdict_lines(comparison)]
    lines += [f"note: {note}" for note in comparison.notes]
    lines += [f"counted in {line}" for line in count_lines(comparison)]
    lines += [f"digest {result.policy}: {result.digest[:16]}" for result in comparison.policies]
    return lines
