"""``evenstep load`` sends a trace to any OpenAI endpoint and prints what it measured.

The exit code is 1 if no request completed, and 130 after Ctrl-C. If an answer has ended, it still prints the figures so far.
"""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.cli.main import CHECK_FAILED, FINE, INTERRUPTED
from evenstep.cli.parts import flags, outputs
from evenstep.cli.parts.signals import terminated_like_ctrl_c
from evenstep.sockets import need_package

if TYPE_CHECKING:
    from evenstep.load.run import Outcome
    from evenstep.load.settings import LoadSettings
    from evenstep.request import Trace


class Load:
    summary = "send a trace to an OpenAI endpoint and measure what comes back"
    description = (
        "Sends the requests of a trace or workload to any server with OpenAI's endpoints, as streams, with synthetic\n"
        "prompts of the trace's lengths. Reports TTFT, TPOT, ITL, E2EL, throughput, goodput and every incomplete answer,\n"
        "under the names of vLLM's bench serve. Sessions keep their order, and their prompts grow from a common prefix."
    )
    examples = (
        "evenstep load sample:azure-conv --url http://127.0.0.1:8100 --limit 500 --speed 10",
        "evenstep load trace.csv --url http://127.0.0.1:8000 --rate 12 --goodput ttft:500,tpot:50 --report load.html",
        "evenstep load sessions.jsonl --url http://127.0.0.1:8000 --endpoint chat --closed 64 --format json",
        "evenstep load sample:sharegpt --url https://llm.example.org --closed 8 --dialect openai --save-requests r.parquet",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.load.settings import LoadSettings

        flags.add_source(parser)
        flags.add_flags(parser, LoadSettings, leave_out=("source",))
        flags.add_format(parser)
        parser.add_argument("--report", metavar="FILE.html", help="write distributions and time lines as one HTML file")
        parser.add_argument("--save-requests", metavar="FILE.parquet", help="write what happened to each request as Parquet")

    def run(self, args: argparse.Namespace) -> int:
        need_package("evenstep load", "httptools")
        from evenstep.load.page import table
        from evenstep.load.run import Interrupted, drive
        from evenstep.load.settings import LoadSettings, check_key, checked
        from evenstep.load.summary import failures, notes, summary

        settings = checked(flags.settled(args, LoadSettings))
        outputs.check_report(args.report)
        outputs.check_report(args.save_requests, "--save-requests", ".parquet")
        if settings.api_key is None and (key := os.environ.get("OPENAI_API_KEY", "").strip()):
            check_key(key, "environment", "OPENAI_API_KEY")
            settings = replace(settings, api_key=key)
        trace = _trace(settings)
        bar, partial = outputs.LoadBar(), False
        try:
            with terminated_like_ctrl_c():
                outcome = drive(trace, settings, bar.draw)
        except Interrupted as stop:
            outcome, partial = stop.outcome, True
        finally:
            bar.end()
        found = summary(outcome, settings)
        told = [*failures(outcome), *trace.notes, *notes(found)]
        if partial:
            left = found["num_prompts"] - found["completed"] - found["failed"]
            told.insert(0, f"Interrupted: these figures are partial. {left:,} of {len(trace):,} requests had not ended.")
        command = _without_key(args.command_line, settings.api_key)
        written = _write(args, outcome, found, settings, told, command)
        value = {"version": 1, "command": command, "versions": outputs.versions(), "notes": told, **found}
        outputs.answer(args, value, [*table(found), "", *told, *written])
        if partial:
            return INTERRUPTED
        return FINE if found["completed"] else CHECK_FAILED


command = Load()


def _trace(settings: LoadSettings) -> Trace:
    """The requests to send. In an open loop `arrival_s` is when each is due, in seconds from the start."""
    from evenstep.experiments.sources import Reading
    from evenstep.load.run import timed
    from evenstep.workload.sources import first_trace
    from evenstep.workload.synthetic.yaml_file import check_arriving

    found = replace(Reading.of(settings), prefix_blocks=True).workload()
    if settings.closed or settings.rate is not None:
        found = replace(found, requests_per_s=None, load=None)
    if not settings.closed:
        check_arriving(found, at_rate=settings.rate is not None or found.requests_per_s is not None)
    return timed(first_trace(found, settings.seed), settings)


def _write(
    args: argparse.Namespace, outcome: Outcome, found: dict[str, Any], settings: LoadSettings, told: list[str], command: str
) -> list[str]:
    """Write the report and the request table that `args` asks for; returns a line for each file that says where it is."""
    from evenstep.load.page import page

    written: list[str] = []
    if args.save_requests is not None:
        outcome.records.write(Path(args.save_requests), {"command": command, "versions": outputs.versions()})
        written.append(f"requests: {Path(args.save_requests).resolve()}")
    if args.report is not None:
        facts = {"server": settings.url, "model": outcome.model, "workload": settings.source, **outputs.versions()}
        lead = [f'<p class="hint">{escape(line)}</p>' for line in told]
        totals = {key: found[key] for key in ("completed", "failed", "request_throughput", "output_throughput")}
        text = page(f"Load on {settings.url}", {outcome.model: (outcome, found)}, lead, {**totals, **facts}, command)
        written.append(outputs.write_report(args.report, text))
    return written


def _without_key(line: str, key: str | None) -> str:
    """The command line `line` with ``***`` in place of the value of ``--api-key``, and of `key` wherever it stands."""
    words = shlex.split(line)
    for place, word in enumerate(words):
        if word == "--api-key" and place + 1 < len(words):
            words[place + 1] = "***"
        elif word.startswith("--api-key="):
            words[place] = "--api-key=***"
    shown = shlex.join(words)
    return shown.replace(key, "***") if key else shown
