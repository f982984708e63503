"""``evenstep compare`` runs policies on one workload and prints paired differences as a table or JSON."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep import config
from evenstep.cli.parts import engine, flags, outputs
from evenstep.errors import InputError

if TYPE_CHECKING:
    from evenstep.config import Settled
    from evenstep.experiments.compare.observed import FromLog
    from evenstep.experiments.settings import CompareSettings


class Compare:
    """The command ``evenstep compare`` (see `main.Command`): compares routing policies on a simulated fleet.

    With an engine, by ``--engine`` or in the settings file, it compares scheduling policies (`parts.engine.compare`). A
    decision log as source also sets fleet, step-time law and policy. Flags add a report and records.
    """

    summary = "compare routing policies on a fleet, or scheduling policies inside one engine"
    description = (
        "Runs every policy on the same requests with the same random numbers, and prints the time that each one loses at\n"
        "the barrier. Differences to a baseline are paired and have 95 % intervals. Options of a policy follow its name:\n"
        "bf-io:horizon=20,discount=0.9,predictor=oracle. A policy may also be a file: my_policy.py.\n"
        "Policies have the constants of their papers. Those that can starve a request also have an age bound, which the\n"
        "papers lack; age_limit=0 switches it off, as in br-0:age_limit=0. See evenstep policy show NAME.\n"
        "A decision log sets fleet, step-time law, arrival times and policy. The recorded run has a row of its own, and\n"
        "the error of the simulator is printed. Flags override the log.\n"
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
        engine.add_engine_flags(parser)
        flags.add_format(parser)
        parser.add_argument("--report", metavar="FILE.html", help="write a self-contained HTML report")
        parser.add_argument("--records", metavar="DIR", help="write the record tables of every run as Parquet")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.compare.observed import from_log, is_log
        from evenstep.experiments.settings import USUAL, CompareSettings, check_used, checked

        in_file = {} if args.config is None else config.read_yaml(args.config).values
        if hasattr(args, "engine") or "engine" in in_file:
            return engine.compare(args)
        for name in ("batch_time", "bounds", "until_s"):
            if hasattr(args, name):
                flag, hint = "--" + name.replace("_", "-"), "Name an engine, or leave it out."
                raise InputError("evenstep compare", flag, getattr(args, name), "no such flag without --engine", hint)
        source = getattr(args, "source", None) or str(in_file.get("source", ""))
        if not (source and is_log(source)):
            found = flags.settled(args, CompareSettings)
            settings = checked(found)
            check_used(found)
            return _compare(args, found, settings)
        log = from_log(source)
        policies = [log.policy, *(name for name in USUAL if name != log.policy)]
        layer = config.Layer(log.origin, {"policies": policies, **log.layer({*vars(args), *in_file})})
        found = flags.settled(args, CompareSettings, layer)
        settings = checked(found)
        if log.policy not in settings.policies:  # simulated as well, to show the error of the simulator
            settings = replace(settings, policies=[log.policy, *settings.policies])
        return _compare(args, found, settings, log)


command = Compare()


def _compare(
    args: argparse.Namespace, found: Settled[CompareSettings], settings: CompareSettings, log: FromLog | None = None
) -> int:
    """Compare routing policies, print the table or JSON, and write the files `args` asks for; returns the exit code, 0."""
    from evenstep.experiments.compare.compared import SAMPLES
    from evenstep.experiments.compare.observed import row_of, with_observed
    from evenstep.experiments.compare.running import run_comparison
    from evenstep.experiments.contenders import contenders
    from evenstep.experiments.settings import check_fits
    from evenstep.experiments.sources import plan_of
    from evenstep.measure.comparison import to_json_object
    from evenstep.report.html import page
    from evenstep.report.tables import columns_of

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
        samples=SAMPLES if args.report is not None else 0,
    )
    check_fits(found, plan.source)
    columns = columns_of(
        prefix_hits=settings.prefix_cache_blocks > 0,
        slo=settings.slo is not None,
        prefill=settings.prefillers == 0 and settings.prefill_base_s + settings.prefill_per_token_s > 0,
    )
    rows = outputs.Rows(asked, columns, observed) if args.format == "table" else None
    outcome = run_comparison(
        plan,
        asked,
        baseline=settings.baseline,
        processes=settings.processes,
        progress=outputs.bar(args.format),
        on_contender=rows.add if rows is not None else None,
    )
    comparison = outputs.described(outcome.comparison, args.command_line)
    if log is not None and observed is not None:
        comparison = with_observed(comparison, log, observed, settings, log.overridden(found.origin))
    told: list[str] = []
    if args.records is not None:
        told += outputs.write_records(outcome, settings.policies, Path(args.records))
    if args.report is not None:
        first = {result.policy: runs[0] for result, runs in zip(comparison.policies, outcome.runs, strict=True)}
        told.append(outputs.write_report(args.report, page(comparison, first)))
    else:
        told.append("for load bands, time lost at the barrier and waits by prompt size, add --report FILE.html")
    if rows is not None:
        rows.end(comparison, told)
    else:
        outputs.print_json({**to_json_object(comparison), "settings": outputs.settings_object(found, settings)})
    return 0
