"""``evenstep simulate`` runs one policy once on a simulated fleet, and prints metrics (JSON: all) and the digest.

Flags add record tables and a Chrome trace.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.cli.parts import flags, outputs
from evenstep.errors import InputError
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.config.layers import Settled
    from evenstep.experiments.settings import SimulateSettings
    from evenstep.measure.records import Run

#: Rows of the table, by field of the summary; ``--format json`` has every field.
SHOWN = (
    "requests",
    "output_tokens",
    "steps",
    "decisions",
    "makespan_s",
    "policy_free_bound_s",
    "idle_share",
    "idle_time_share",
    "imbalance_envelope_tokens",
    "imbalance_spread_tokens",
    "tokens_per_s",
    "full_slot_tokens_per_s",
    "tpot_mean_s",
    "tpot_p95_s",
    "ttft_p95_s",
    "mean_wait_s",
    "oldest_wait_s",
    "energy_busy_idle_j",
    "energy_step_average_j",
    "overloaded",
    "restarts",
)
#: What is said beside two numbers whose names are alike.
SAID = {"idle_share": "load imbalance", "idle_time_share": "time lost at the barrier"}
#: Shown for runs with prefix caches.
CACHED = ("prefix_hit_share", "prefix_hit_tokens", "prefix_prompt_tokens")
#: Shown if a service-level objective is given.
JUDGED = ("slo_share", "goodput_requests_per_s", "goodput_tokens_per_s")
#: Columns where a trace has several classes, by field of the summary's `by_class`: heading and format.
OF_CLASS = {
    "request_class": ("class", "d"),
    "requests": ("requests", "d"),
    "output_tokens": ("output tokens", "d"),
    "admitted_share": ("admitted while all had some", ".1%"),
    "mean_wait_s": ("mean wait s", ".4g"),
    "oldest_wait_s": ("oldest wait s", ".4g"),
}
#: Classes the table shows; JSON has them all.
MOST_CLASSES = 20
#: A Chrome trace needs every worker at every step in memory.
MOST_SAMPLED = 50_000_000


class Simulate:
    summary = "run one policy once and write its records"
    description = (
        "Runs one policy on one workload and prints every metric and the digest. --records writes the tables of\n"
        "requests, steps, workers and decisions as Parquet; --chrome-trace writes one track a worker for Perfetto."
    )
    examples = (
        "evenstep simulate sample:azure-conv --policy br-0",
        "evenstep simulate trace.csv --policy jsq --limit 2000 --records records --chrome-trace run.json",
        "evenstep simulate examples/workloads/burst.yaml --policy examples/my_policy.py --door plain --format json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.experiments.settings import SimulateSettings

        flags.add_source(parser)
        flags.add_flags(parser, SimulateSettings, leave_out=("source",))
        flags.add_format(parser)
        parser.add_argument("--records", metavar="DIR", help="write the record tables as Parquet")
        parser.add_argument("--chrome-trace", metavar="FILE.json", help="write the first sampled steps for Perfetto")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.settings import SimulateSettings, check_used, checked, idle
        from evenstep.measure.metrics import known

        found = flags.settled(args, SimulateSettings)
        settings = checked(found)
        check_used(found)
        flags.need_source("evenstep simulate", settings.source)
        outputs.check_report(args.chrome_trace, "--chrome-trace", ".json")
        outputs.check_folder(args.records)
        again = _prepared(args, found, settings)
        outputs.remark(idle(found, settings.arrivals))
        run = again(settings.samples)
        told: list[str] = []
        count = run.totals.counted["held_decisions"]
        if count:
            told.append(outputs.held_line(settings.policy, count, run.totals.decisions))
        if args.records is not None:
            from evenstep.measure.parquet import write_run

            told += [f"records: {path}" for path in write_run(run, Path(args.records))]
        if args.chrome_trace is not None:
            told.append(_chrome_trace(again, run, settings, Path(args.chrome_trace)))
        value = {
            "version": 1,
            "command": args.command_line,
            "versions": outputs.versions(),
            "conditions": {name: known(value) for name, value in asdict(run.conditions).items()},
            "digest": run.digest,
            "notes": list(run.trace.notes) if run.trace is not None else [],
            **run.summary,
            "settings": outputs.settings_object(found, settings),
        }
        return outputs.answer(args, value, [*_table(run), *told])


command = Simulate()


def _prepared(
    args: argparse.Namespace, found: Settled[SimulateSettings], settings: SimulateSettings
) -> Callable[[int], Run]:
    """A function that makes the run, always the same one; its argument is how many steps of worker loads to keep.

    Without ``--records`` and ``--chrome-trace`` the run keeps none. A notice of kernels to compile is printed at once.
    """
    from evenstep.experiments.contenders import contenders
    from evenstep.experiments.jobs import run_first
    from evenstep.experiments.settings import check_fits
    from evenstep.experiments.sources import plan_of
    from evenstep.experiments.warming import compile_notice

    (one,) = contenders([settings.policy])
    recorded = args.records is not None
    plan = plan_of(settings, records=recorded, decisions=recorded, door=settings.door)
    check_fits(found, plan.source)
    trace = plan.replicate(0)
    notice = compile_notice()
    if notice:
        outputs.bar(args.format).say(notice)

    def run(samples: int) -> Run:
        kept = samples if recorded or args.chrome_trace is not None else 0
        return run_first(replace(plan, samples=kept), one, trace)

    return run


def _chrome_trace(again: Callable[[int], Run], run: Run, settings: SimulateSettings, path: Path) -> str:
    """Write the Chrome trace, which needs a sample of every step; returns a line for the user.

    If `run` has fewer samples, `again` repeats it with enough. Steps times workers above `MOST_SAMPLED` are an `InputError`.
    """
    from evenstep.report.chrome_trace import write_chrome_trace

    if run.totals.steps * run.conditions.workers > MOST_SAMPLED:
        expected = f"at most {MOST_SAMPLED:,} steps times workers for a Chrome trace"
        raise InputError("chrome trace", "steps", run.totals.steps, expected, "Run fewer requests: --limit.")
    assert run.workers is not None
    whole = run.workers if run.workers.stride == 1 else again(run.totals.steps + 1).workers
    assert whole is not None
    steps = write_chrome_trace(path, whole, settings.step_time(), run.conditions)
    shown = f"the first {steps} of {counted(run.totals.steps, 'step')}"
    return f"chrome trace: {path}, {shown}; open it in https://ui.perfetto.dev"


def _table(run: Run) -> list[str]:
    """The run as lines of text: metrics of `SHOWN` (and of `JUDGED` and `CACHED` if any), window, classes, notes, digest."""
    lines = [f"policy                     {run.conditions.policy}"]
    for name in (*SHOWN, *(name for name in (*JUDGED, *CACHED) if name in run.summary)):
        value = run.summary[name]
        text = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        lines.append(f"{name:<26} {text:<11} {SAID.get(name, '')}".rstrip())
    lines.append(f"{'window':<26} {run.summary['window']['kind']}, {counted(run.summary['window']['steps'], 'step')}")
    lines += class_lines(run.summary.get("by_class", []))
    lines += [f"note: {note}" for note in (run.trace.notes if run.trace is not None else ())]
    if run.conditions.oracle:
        lines.append("its predictor saw true lengths: unreachable live")
    return [*lines, f"{'digest':<26} {run.digest}"]


def class_lines(classes: list[dict[str, Any]]) -> list[str]:
    """The summary's ``by_class`` as lines of a table: a heading and a line for each class; [] if there are no classes.

    Only the first `MOST_CLASSES` are shown; a last line counts the others.
    """
    if not classes:
        return []
    lines = ["  ".join(heading for heading, _ in OF_CLASS.values())]
    for one in classes[:MOST_CLASSES]:
        cells = [format(one[name], form).rjust(len(heading)) for name, (heading, form) in OF_CLASS.items()]
        lines.append("  ".join(cells))
    if len(classes) > MOST_CLASSES:
        lines.append(f"and {len(classes) - MOST_CLASSES} more classes: --format json has them all")
    return lines
