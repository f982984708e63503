"""``evenstep demo`` replays a recorded trace through the gateway on emulated engines of this machine, once for each policy.

It prints a row for each policy, or JSON, and writes an HTML report. The exit code is 1 if a request failed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep.cli.parts import flags, outputs
from evenstep.sockets import need_gateway_extra

if TYPE_CHECKING:
    from evenstep.load.demo import Shown


class Demo:
    summary = "see the gateway even out emulated engines, policy by policy"
    description = (
        "Starts emulated data-parallel ranks that share a barrier, with the gateway in front of them. Replays a recorded\n"
        "trace at a load that fills all slots, and prints the figures of each policy. This takes a minute with the default\n"
        "policies, and needs no accelerator and no network. Only the report is left when it ends."
    )
    examples = (
        "evenstep demo",
        "evenstep demo --policy round-robin --policy br-0 --requests 500 --report demo.html",
        "evenstep demo --ranks 4 --slots 16 --policy jsq --policy best",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.load.demo_settings import DemoSettings

        flags.add_flags(parser, DemoSettings, leave_out=("policies",))
        text = "a policy to show; may be given many times; @MS after it = milliseconds that the gateway gathers free slots"
        text += " (default jsq, best, best@0)"
        flags.add_many(parser, "--policy", "NAME[:KEY=VALUE,...][@MS]", text, dest="policies")
        flags.add_format(parser)
        report = "where the report goes (default evenstep-demo.html)"
        parser.add_argument("--report", metavar="FILE.html", default="evenstep-demo.html", help=report)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.load.demo_settings import DemoSettings, checked

        need_gateway_extra("evenstep demo")
        from evenstep.load.demo import replayed, run_demo
        from evenstep.load.demo_page import foot, head, line, page, values
        from evenstep.workload.reading import read_trace

        settings = checked(flags.settled(args, DemoSettings))
        outputs.check_report(args.report)
        trace = replayed(read_trace(settings.source, prefix_blocks=False), settings)
        rows: list[Shown] = []
        bar = outputs.LoadBar()
        bar.say("starting engines and gateway; the first time, kernels are compiled for up to a minute")
        try:
            for row in run_demo(settings, trace, lambda name, at: bar.draw(at, name)):
                bar.end()
                rows.append(row)
                if args.format == "table":
                    print("\n".join([*(head() if len(rows) == 1 else ()), line(row, rows[0])]), flush=True)
        finally:
            bar.end()
        told, versions = foot(settings, rows), outputs.versions()
        report = outputs.write_report(args.report, page(settings, rows, versions, args.command_line))
        path = str(Path(args.report).resolve())
        about = {"command": args.command_line, "versions": versions, "notes": told, "report": path}
        value = {"version": 1, **about, "policies": [values(row) for row in rows]}
        outputs.answer(args, value, ["", *told, report])
        return 1 if any(row.summary["failed"] for row in rows) else 0


command = Demo()
