"""``evenstep compare``: policies on one workload, paired differences, table or JSON or HTML report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep.cli.parts import engine
from evenstep.cli.parts.engine import add_engine_flags
from evenstep.cli.parts.flags import add_flags, add_format, add_many, add_source, need_source, settled

if TYPE_CHECKING:
    from evenstep.config import Layer, Settled
    from evenstep.experiments.compare.observed import FromLog
    from evenstep.experiments.jobs import Plan
    from evenstep.experiments.settings import CompareSettings


class Compare:
    """The command ``evenstep compare`` (see `main.Command`): routing policies on a simulated fleet, paired differences.

    With an engine, by ``--engine`` or in the settings file, it compares scheduling policies (`parts.engine.compare`). A
    decision log as source also sets fleet, law and policy. It prints a table or JSON, and may write a report and records.
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

        add_source(parser)
        text = f"a policy to compare; may be given many times (default {', '.join(USUAL)})"
        add_many(parser, "--policy", "NAME[:KEY=VALUE,...]", text, dest="policies")
        add_flags(parser, CompareSettings, leave_out=("source", "policies"))
        add_engine_flags(parser)
        add_format(parser)
        parser.add_argument("--report", metavar="FILE.html", help="write a self-contained HTML report")
        parser.add_argument("--records", metavar="DIR", help="write the record tables of every run as Parquet")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.errors import InputError
        from evenstep.experiments.settings import CompareSettings, check_used, checked

        if hasattr(args, "engine") or _names_an_engine(args.config):
            return engine.compare(args)
        for name in ("batch_time", "bounds", "until_s"):
            if hasattr(args, name):
                flag, hint = "--" + name.replace("_", "-"), "Name an engine, or leave it out."
                raise InputError("evenstep compare", flag, getattr(args, name), "no such flag without --engine", hint)
        log = _log_of(args)
        found = settled(args, CompareSettings, None if log is None else _layer(args, log))
        settings = checked(found)
        if log is None:
            check_used(found)
        return _compare(args, found, settings, log)


command = Compare()


def _names_an_engine(config: str | None) -> bool:
    """Whether a settings file is one of policies inside an engine."""
    from evenstep.config import read_yaml

    return config is not None and "engine" in read_yaml(config).values


def _log_of(args: argparse.Namespace) -> FromLog | None:
    """The fleet settings of the workload, if it is a decision log."""
    from evenstep.config import read_yaml
    from evenstep.experiments.compare.observed import from_log, is_log

    values = {} if args.config is None else read_yaml(args.config).values
    source = getattr(args, "source", None) or str(values.get("source", ""))
    return from_log(source) if source and is_log(source) else None


def _layer(args: argparse.Namespace, log: FromLog) -> Layer:
    """Fleet, law and policies of a log, overridden by files and flags: its own policy comes first."""
    from evenstep.config import Layer, read_yaml
    from evenstep.experiments.settings import USUAL

    given = {*vars(args), *({} if args.config is None else read_yaml(args.config).values)}
    policies = [log.policy, *(name for name in USUAL if name != log.policy)]
    return Layer(log.origin, {"policies": policies, **log.layer(given)})


def _with_its_policy(settings: CompareSettings, log: FromLog) -> CompareSettings:
    """The settings with the log's policy among those compared: its simulation shows how well the simulator does."""
    from dataclasses import replace

    if log.policy in settings.policies:
        return settings
    return replace(settings, policies=[log.policy, *settings.policies])


def _compare(
    args: argparse.Namespace, found: Settled[CompareSettings], settings: CompareSettings, log: FromLog | None = None
) -> int:
    from evenstep.cli.parts import outputs
    from evenstep.experiments.compare.observed import row_of, with_observed
    from evenstep.experiments.compare.running import run_comparison
    from evenstep.experiments.contenders import contenders
    from evenstep.experiments.progress import Bar
    from evenstep.report.html import page
    from evenstep.report.tables import columns_of

    need_source("evenstep compare", settings.source)
    outputs.check_report(args.report)
    outputs.check_folder(args.records)
    observed = None
    if log is not None:
        settings = _with_its_policy(settings, log)
        observed = row_of(log, settings.objective())
    asked = contenders(settings.policies)
    plan = _plan(args, found, settings)
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
        progress=Bar(lines=outputs.lines_of(args.format)),
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
        from evenstep.measure.comparison import to_json_object

        outputs.print_json({**to_json_object(comparison), "settings": outputs.settings_object(found, settings)})
    return 0


def _plan(args: argparse.Namespace, found: Settled[CompareSettings], settings: CompareSettings) -> Plan:
    """The common settings of the runs, from the settings and the flags of the outputs."""
    from evenstep.experiments.compare.compared import SAMPLES
    from evenstep.experiments.settings import check_fits
    from evenstep.experiments.sources import plan_of

    plan = plan_of(
        settings,
        fewer=found.origin["seeds"] == "default",
        records=args.report is not None,
        all_records=args.records is not None,
        samples=SAMPLES if args.report is not None else 0,
    )
    check_fits(found, plan.source)
    return plan
