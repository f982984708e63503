"""``evenstep thresholds``: thresholds of WAIT and Nested WAIT for a trace and an engine."""

from __future__ import annotations

import argparse
from typing import Any

from evenstep.cli.parts.flags import add_format


class Thresholds:
    """The command."""

    summary = "solve WAIT's and Nested WAIT's thresholds for a trace and an engine"
    description = (
        "Prints the least thresholds that keep up with the trace, the memory they need, the latency to expect, and the\n"
        "inequality each satisfies. WAIT's types are the trace's classes, Nested WAIT's its output lengths."
    )
    examples = (
        "evenstep thresholds sample:azure-conv --rate 20 --engine kv-tokens=400000",
        "evenstep thresholds sample:azure-conv --rate 20 --batch-time affine-kv:d0-s=0.02,d1-s=1e-7 --segments 10",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="TRACE", help="a trace, a workload YAML or sample:azure-conv")
        parser.add_argument("--engine", default="", metavar="KEY=VALUE,...", help="the engine; kv-tokens is its memory")
        parser.add_argument(
            "--batch-time", default="affine-kv", metavar="affine-kv[:KEY=VALUE,...]", help="seconds of an iteration"
        )
        parser.add_argument("--rate", type=float, metavar="X", help="rescale arrivals to so many requests a second")
        parser.add_argument(
            "--segments",
            type=int,
            metavar="L",
            help="segments of Nested WAIT; left out = the number that needs the least memory",
        )
        parser.add_argument(
            "--iterations",
            type=float,
            default=1e6,
            metavar="S",
            help="iterations over which the memory has to suffice (1e6)",
        )
        parser.add_argument(
            "--delta", type=float, default=0.01, metavar="P", help="probability that it does not suffice (0.01)"
        )
        parser.add_argument("--limit", type=int, metavar="ROWS", help="only the first ROWS requests")
        parser.add_argument("--format-name", metavar="NAME", help="format of TRACE where it is not recognised")
        add_format(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.cli.parts.outputs import print_json
        from evenstep.experiments.compare.engine_settings import EngineSettings, check
        from evenstep.experiments.compare.gate_thresholds import Asked, answer, read

        settings = check(
            EngineSettings(
                source=args.file,
                seeds=1,
                engine=args.engine,
                batch_time=args.batch_time,
                rate=args.rate,
                limit=args.limit,
                format_name=args.format_name,
            ),
            "evenstep thresholds",
        )
        asked = Asked(
            read(settings),
            settings.server(),
            settings.law(),
            args.segments,
            args.iterations,
            args.delta,
        )
        found = answer(asked)
        if args.format == "json":
            print_json(found)
        else:
            print("\n".join(_lines(found)))
        return 0


command = Thresholds()


def _lines(found: dict[str, Any]) -> list[str]:
    wait, nested = found["wait"], found["nested_wait"]
    return [
        f"{found['trace']}: {found['requests_per_s']:.4g} requests a second",
        "",
        f"WAIT, wait:thresholds={'/'.join(str(gate['threshold']) for gate in wait['gates'])}",
        *(f"  type {gate['type']}: n = {gate['threshold']}, {gate['satisfies']}" for gate in wait["gates"]),
        _held(wait),
        f"  expected latency {wait['expected_latency_s']:.4g} s",
        "",
        f"Nested WAIT, nested-wait:thresholds={'/'.join(str(gate['threshold']) for gate in nested['gates'])},"
        f"ends={'/'.join(map(str, nested['ends']))}",
        *(f"  segment {gate['segment']}: n = {gate['threshold']}, {gate['satisfies']}" for gate in nested["gates"]),
        _held(nested),
        f"  memory {nested['enough_kv_tokens']:,.0f} KV tokens, {nested['satisfies']}",
        f"  expected latency {nested['expected_latency_s']:.4g} s, slack {nested['slack']:g}",
    ]


def _held(own: dict[str, Any]) -> str:
    return f"  a full batch holds {own['kv_tokens']:,.0f} KV tokens; in the fluid equilibrium {own['fluid_kv_tokens']:,.0f}"
