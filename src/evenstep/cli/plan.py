"""``evenstep plan`` finds how many workers a fleet needs under each routing policy (`planning.planner.answer`)."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from evenstep.cli.parts import flags, outputs
from evenstep.config.number import check_at_least


class PlanCommand:
    summary = "find how many workers a fleet needs for a rate and an objective"
    description = (
        "Searches the least fleet that keeps up with a rate of arrivals and meets an objective, for each policy and number\n"
        "of slots. It simulates each fleet that it tries: once with requests that arrive at the rate, and once with a pool\n"
        "that is kept full. The closed form assumes equal loads; the difference to it is what imbalance costs.\n"
        "Arrivals are Poisson; lengths are drawn from the trace or the laws."
    )
    examples = (
        "evenstep plan sample:azure-conv --rate 1000 --slo ttft=2s,tpot=50ms",
        "evenstep plan sample:azure-conv --rate 200 --slo tpot=12ms --slots 16,32,64 --policy jsq --policy best",
        "evenstep plan 2000/300 --rate 50 --slo ttft=1s,tpot=30ms --group-size 8 --kv-tokens 400000 --worker-cost 3.5",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.experiments.planning.settings import PlanSettings

        text = "trace file, workload YAML, sample:azure-conv, or laws of lengths PROMPT/OUTPUT, e.g. 129/112"
        parser.add_argument("source", nargs="?", default=argparse.SUPPRESS, metavar="TRACE|LAWS", help=text)
        text = "a routing policy (default jsq, br-0, best); may be given many times"
        flags.add_many(parser, "--policy", "NAME[:KEY=VALUE,...]", text, dest="policies")
        flags.add_flags(parser, PlanSettings, leave_out=("source", "policies"))
        flags.add_format(parser)
        flags.add_processes(parser)
        parser.add_argument("--report", metavar="FILE.html", help="write a self-contained HTML report")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.planning.planner import answer
        from evenstep.experiments.planning.settings import PlanSettings, checked
        from evenstep.report.plan_page import lines, page

        check_at_least("evenstep plan", 1, args, "processes")
        outputs.check_report(args.report)
        settings = checked(flags.settled(args, PlanSettings))
        found = answer(settings, args.processes, outputs.bar(args.format))
        value = {"version": 1, "command": args.command_line, "versions": outputs.versions(), **asdict(found)}
        told = ["for the share that met the objective by size of the fleet, add --report FILE.html"]
        if args.report is not None:
            told = [outputs.write_report(args.report, page(found, args.command_line, outputs.versions()))]
        return outputs.answer(args, value, lines(found, outputs.terminal_width()), told)


command = PlanCommand()
