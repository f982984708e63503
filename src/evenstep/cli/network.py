"""``evenstep network`` simulates several engines on one clock, and tasks made of calls, or checks their stability.

``run`` compares task latency under orders of service; with ``--live`` also through the gateway on emulated engines.
``check`` judges stability by the engines' loads and by one simulated run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evenstep.cli.parts import flags, outputs
from evenstep.config.number import check_at_least
from evenstep.config.yaml_file import in_file
from evenstep.errors import InputError
from evenstep.sockets import need_gateway_extra
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.measure.network_records import Live, NetworkRun


class NetworkCommand:
    summary = "run or check a network of engines whose tasks are made of several calls"
    description = (
        "Simulates engines on one clock, not in lock-step, and tasks that are graphs of calls: parallel, fork-join,\n"
        "branching and loops. `run` compares orders (which calls an engine serves first) by end-to-end task latency.\n"
        "`check` prints the load of each engine, and of calls that priorities keep from running at the same time (virtual\n"
        "stations) if it is above 1. It puts the simulated verdict on stability next to the analytical one."
    )
    examples = (
        "evenstep network run examples/networks/agent-loop.yaml",
        "evenstep network run examples/networks/agent-loop.yaml --orders fcfs,least-attained,critical-path --seeds 10",
        "evenstep network run examples/networks/agent-loop.yaml --report network.html",
        "evenstep network run examples/networks/research-agents.yaml --orders fcfs,critical-path --seeds 10",
        "evenstep network run examples/networks/rybko-stolyar-small.yaml --live",
        "evenstep network run examples/networks/research-agents.yaml --live --speed 4 --orders fcfs,critical-path",
        "evenstep network check examples/networks/rybko-stolyar.yaml",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="run|check")
        run = actions.add_parser("run", help="run the tasks and show their latency")
        check = actions.add_parser("check", help="judge stability by loads and by a run")
        for one in (run, check):
            one.add_argument("file", metavar="NETWORK.yaml", help="engines and tasks; see the how-to page on networks")
            until = "stop at this time in seconds; overrides the file"
            flags.add_values(one, {"--until-s X": (until, float), "--seed SEED": ("key of every draw (0)", int, 0)})
            flags.add_format(one)
        flags.add_values(
            run,
            {
                "--seeds N": ("replicates of each order (3, or 1 if they are copies; 1 with --live)", int),
                "--orders NAME,...": "orders to compare, the first is the baseline: fcfs, oldest-task, least-attained, "
                "critical-path, longest-path; that of the file when left out",
                "--report FILE.html": "write a self-contained HTML report",
                "--live": "run the same tasks through the gateway on emulated engines, once for each order, and show both; "
                "takes the file's time",
                "--speed X": ("with --live: how many times faster time passes (1)", float),
            },
        )

    def run(self, args: argparse.Namespace) -> int:
        if args.action == "run" and args.live:
            need_gateway_extra("evenstep network --live")
        if args.until_s is not None and not 0 < args.until_s < float("inf"):
            raise InputError("evenstep network", "--until-s", args.until_s, "a finite number > 0")
        check_at_least("evenstep network", 0, args, "seed")
        from evenstep.sim.network.description import load

        if Path(args.file).is_file():  # a pipe can be read only once
            load(args.file)  # refuses a bad file before `experiments.networks` compiles kernels
        if args.action == "check":
            return _check(args)
        orders = tuple(args.orders.split(",")) if args.orders is not None else ()
        return _live(args, orders) if args.live else _run(args, orders)


command = NetworkCommand()


def _live(args: argparse.Namespace, orders: tuple[str, ...]) -> int:
    """Simulate the tasks and run them live under each order (none given: the file's), and print both results; returns 0."""
    from evenstep.experiments import networks
    from evenstep.load.live_network import run_live
    from evenstep.measure.network_records import live_orders
    from evenstep.report import network_page as page

    if args.report is not None:
        raise InputError("evenstep network", "--report", args.report, "no report with --live", "Leave one of the two out.")
    network, traces = networks.settled(args.file, args.until_s)
    speed = 1.0 if args.speed is None else args.speed
    seeds = 1 if args.seeds is None else args.seeds
    found = networks.compare(args.file, orders=orders, seeds=seeds, seed=args.seed, until_s=args.until_s)
    rows: list[tuple[NetworkRun, Live]] = []
    for one, simulated in zip(networks.in_orders(network, orders), found, strict=True):
        with in_file(args.file, "network"):
            rows += [(run, run_live(one, traces=traces, seed=run.seed, speed=speed)) for run in simulated.runs]
    compared = live_orders(rows) if len(found) > 1 else []
    told = {
        "version": 1,
        "runs": [page.live_object(*pair) for pair in rows],
        "orders": [page.live_order_object(one) for one in compared],
    }
    lines = page.live_lines(rows)
    if compared:
        means = f"Means over {counted(seeds, 'replicate')}"
        alike = f"live runs are compared with live ones under {found[0].order}, simulated ones with simulated ones."
        lines += ["", *page.live_order_lines(compared), "", f"{means}; {alike}"]
    return outputs.answer(args, told, lines)


def _run(args: argparse.Namespace, orders: tuple[str, ...]) -> int:
    """Simulate the tasks under each order (none given: the file's), print latencies, write a report if asked; returns 0."""
    from evenstep.experiments import networks
    from evenstep.report import network_page as page

    outputs.check_report(args.report)
    if args.speed is not None:
        hint = "Simulated time takes no time."
        raise InputError("evenstep network", "--speed", args.speed, "no value without --live", hint)
    found = networks.compare(args.file, orders=orders, seeds=args.seeds, seed=args.seed, until_s=args.until_s)
    notes = networks.notes(networks.settled(args.file, args.until_s)[0])
    told = [f"note: {note}" for note in notes]
    if args.report is not None:
        told.append(outputs.write_report(args.report, found.page(args.command_line)))
    value = {"version": 1, "orders": [page.order_object(one) for one in found], "notes": notes}
    return outputs.answer(args, value, page.order_lines(found.orders), told)


def _check(args: argparse.Namespace) -> int:
    """Print each engine's load and the stability verdicts, by loads and by one simulated run; returns 0."""
    from evenstep.experiments import networks
    from evenstep.measure.metrics import known
    from evenstep.report import network_page as page

    checked = networks.check(args.file, until_s=args.until_s, seed=args.seed)
    growth = {name: {"by_load": fluid, "simulated": seen} for name, (fluid, seen) in checked.growth.items()}
    loads, simulated = page.judged_object(checked.judged), known(checked.run.summary)
    found = {"version": 1, **loads, "growth": growth, "simulated": simulated}
    return outputs.answer(args, found, page.checked_lines(checked))
