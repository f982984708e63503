"""``evenstep sweep`` runs policies at every point of a grid or sample of parameters, which a SWEEP.yaml describes.

It writes one row for each run as Parquet, maybe a report, and prints means. A cache folder keeps finished runs, so a stopped
sweep (exit code 130) resumes. ``--dry-run`` makes a few runs and prints a forecast.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep.cli.main import FINE, INTERRUPTED
from evenstep.cli.parts import flags, outputs
from evenstep.cli.parts.signals import terminated_like_ctrl_c
from evenstep.config.number import check_at_least
from evenstep.errors import InputError
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.experiments.sweep.sweeping import Sweep
    from evenstep.measure.swept import Swept


class SweepCommand:
    summary = "run policies over a grid or a sample of parameters"
    description = (
        "Runs every policy at every point of SWEEP.yaml, writes one row a run as Parquet, and prints a table of means.\n"
        "A cache keeps finished runs under a digest of their inputs: a stopped sweep resumes where it was, and a changed\n"
        "file runs only what is new. See the how-to page on sweeping a parameter for the file."
    )
    examples = (
        "evenstep sweep examples/sweeps/fleet.yaml",
        "evenstep sweep examples/sweeps/fleet.yaml --dry-run",
        'evenstep sweep examples/sweeps/horizon.yaml --until "ci(idle_time_share) < 40%" --report sweep.html',
        "evenstep sweep examples/sweeps/fleet.yaml --out results.parquet --executor ray --ray-address 10.0.0.1:6379",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="SWEEP.yaml", help="the parameters to sweep, and their values")
        flags.add_values(
            parser,
            {
                "--out FILE.parquet": "a row a run (default the name of SWEEP.yaml, here)",
                "--report FILE.html": "write a self-contained HTML report with curves",
                "--cache DIR": "where finished runs are kept (default the name of --out and .cache)",
                "--until CONDITION": "add replicates to a point until half the 95 %% interval of a metric is under this "
                "limit for all its policies, e.g. ci(idle_time_share) < 40%% (a share of the mean); join several by and",
                "--most-seeds N": ("replicates a point may have under --until (default 30)", int),
                "--slo ttft=X,tpot=X": "objective for goodput and the share of requests that meet it, e.g. "
                "ttft=2s,tpot=50ms; wins over the file",
            },
        )
        where = "where runs are made: processes of this machine (default), or a Ray cluster; the results are the same"
        parser.add_argument("--executor", choices=["processes", "ray"], default="processes", help=where)
        flags.add_processes(parser)
        flags.add_values(
            parser,
            {
                "--ray-address ADDRESS": "the Ray cluster; that of RAY_ADDRESS, or a new one on this machine, when left out",
                "--dry-run": "print the number of points and runs and their time; times one run of each policy at up to "
                "three points, which the cache keeps",
            },
        )
        flags.add_format(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.crew import Places
        from evenstep.experiments.sweep.runs import Interrupted
        from evenstep.experiments.sweep.sweeping import Sweep

        check_at_least("evenstep sweep", 1, args, "processes")
        if args.ray_address is not None and args.executor != "ray":
            raise InputError("evenstep sweep", "--ray-address", args.ray_address, "no value without --executor ray")
        if args.processes is not None and args.executor == "ray":
            hint = "Ray makes a run on each core of its cluster."
            raise InputError("evenstep sweep", "--processes", args.processes, "no value with --executor ray", hint)
        out = Path(args.out) if args.out is not None else Path(Path(args.source).stem + ".parquet")
        outputs.check_report(str(out), "--out", ".parquet")
        cache = Path(args.cache) if args.cache is not None else out.with_name(out.name + ".cache")
        outputs.check_report(args.report)
        outputs.check_folder(str(cache))
        asked = {"until": args.until, "most_seeds": args.most_seeds, "slo": args.slo}
        running = Sweep(args.source, cache=cache, **asked, progress=outputs.bar(args.format))
        try:
            with terminated_like_ctrl_c():
                if args.dry_run:
                    return _forecast(args, running)
                swept = running.run(Places(args.executor, args.processes, args.ray_address))
        except Interrupted as stop:
            made = counted(stop.made, "run of this call is", "runs of this call are")
            text = f"{made} kept in {cache}, {counted(stop.left, 'is', 'are')} left"
            print(f"evenstep sweep: interrupted; {text}. To go on: {args.command_line}", file=sys.stderr)
            return INTERRUPTED
        _write(args, running, swept, out)
        return FINE


command = SweepCommand()


def _forecast(args: argparse.Namespace, running: Sweep) -> int:
    """Print the number of points, of runs, of those in the cache, and how long the rest takes; returns the exit code, 0.

    To time them it makes a few runs, and the cache keeps their results.
    """
    found = running.forecast(args.processes)
    most = f", {found.most_runs} at most" if found.most_runs > found.runs else ""
    left = "nothing is left to run" if found.seconds is None else f"about {_duration(found.seconds)} to go"
    if most:
        left += ", and then the replicates that the rule asks for"
    runs, cached = counted(found.runs, "run that differs", "runs that differ"), counted(found.cached, "is", "are")
    lines = [f"{counted(found.points, 'point')}, {runs}{most}; {cached} in the cache", left]
    return outputs.answer(args, {"version": 1, **asdict(found)}, lines)


def _write(args: argparse.Namespace, running: Sweep, swept: Swept, out: Path) -> None:
    """Write the runs as Parquet to `out`, write the report if asked for, and print the table or JSON."""
    from evenstep.measure.swept import to_json_object, write_swept
    from evenstep.report.sweep_page import table_lines, until_sentence, write_sweep

    rows = write_swept(swept, out)
    told = [f"{out}: {counted(rows, 'row')}; {counted(running.made, 'run')} made, the others from {running.cache.folder}"]
    if running.cache.damaged:
        damaged = counted(running.cache.damaged, "damaged file of the cache was", "damaged files of the cache were")
        told.append(f"{damaged} passed over and made again")
    described = replace(swept, command=args.command_line, versions=outputs.versions())
    if args.report is not None:
        write_sweep(described, Path(args.report))
        told.append(f"report: {Path(args.report).resolve()}")
    said = until_sentence(swept)
    lines = [*table_lines(swept, width=outputs.terminal_width()), *([said] if said else []), *told]
    outputs.answer(args, to_json_object(described), lines)


def _duration(seconds: float) -> str:
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"
