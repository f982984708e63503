"""``evenstep thresholds`` prints the least thresholds of WAIT and Nested WAIT for a trace and an engine."""

from __future__ import annotations

import argparse
from typing import Any

from evenstep.cli.parts import flags, outputs


class Thresholds:
    summary = "solve WAIT's and Nested WAIT's thresholds for a trace and an engine"
    description = (
        "WAIT and Nested WAIT are scheduling policies that run requests of a type once a threshold of them waits. Prints\n"
        "the least thresholds that keep up with the trace, the memory they need, the latency to expect, and the inequality\n"
        "each satisfies. WAIT's types are the trace's classes, Nested WAIT's its output lengths."
    )
    examples = (
        "evenstep thresholds sample:azure-conv --rate 4 --engine kv-tokens=5000000",
        "evenstep thresholds sample:azure-conv --rate 20 --batch-time affine-kv:d0-s=0.02,d1-s=1e-7 --segments 10",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="TRACE", help="a trace, a workload YAML or sample:azure-conv")
        flags.add_values(
            parser,
            {
                "--engine KEY=VALUE,...": ("kv-tokens=N, its memory; no other key counts", str, ""),
                "--batch-time affine-kv[:KEY=VALUE,...]": ("seconds of an iteration", str, "affine-kv"),
                "--rate X": ("rescale arrivals to so many requests a second", float),
                "--segments L": ("segments of Nested WAIT; left out = the number that needs the least memory", int),
                "--iterations S": ("iterations over which the memory has to suffice (1e6)", float, 1e6),
                "--delta P": ("probability that it does not suffice (0.01)", float, 0.01),
                "--limit ROWS": ("only the first ROWS requests", int),
                "--format-name NAME": "format of TRACE where it is not recognised",
            },
        )
        flags.add_columns_flag(parser)
        flags.add_format(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.compare.engine_settings import EngineSettings, check
        from evenstep.experiments.compare.gate_thresholds import Question, answer, read

        asked = {name: getattr(args, name) for name in ("engine", "batch_time", "rate", "limit")}
        form = flags.format_of(args, args.format_name)
        settings = check(EngineSettings(args.file, seeds=1, format_name=form, **asked), "evenstep thresholds")
        question = Question(read(settings), settings.server(), settings.law(), args.segments, args.iterations, args.delta)
        found = answer(question)
        return outputs.answer(args, found, _lines(found))


command = Thresholds()


def _lines(found: dict[str, Any]) -> list[str]:
    wait, nested = found["wait"], found["nested_wait"]
    by_class = {gate["type"]: gate["threshold"] for gate in wait["gates"]}
    thresholds = [by_class.get(number, 1) for number in range(max(by_class) + 1)]  # the policy counts classes from 0
    return [
        f"{found['trace']}: {found['requests_per_s']:.4g} requests a second",
        "",
        f"WAIT, wait:thresholds={'/'.join(map(str, thresholds))}",
        *(f"  type {gate['type']}: n = {gate['threshold']}, {gate['satisfies']}" for gate in wait["gates"]),
        _held(wait),
        f"  expected latency {wait['expected_latency_s']:.4g} s",
        "",
        *_nested_lines(nested),
    ]


def _nested_lines(nested: dict[str, Any]) -> list[str]:
    if "not_solved" in nested:
        return [f"Nested WAIT has no thresholds here. {nested['not_solved']}"]
    return [
        f"Nested WAIT, nested-wait:thresholds={'/'.join(str(gate['threshold']) for gate in nested['gates'])},"
        f"ends={'/'.join(map(str, nested['ends']))}",
        *(f"  segment {gate['segment']}: n = {gate['threshold']}, {gate['satisfies']}" for gate in nested["gates"]),
        _held(nested),
        f"  memory {nested['enough_kv_tokens']:,.0f} KV tokens, {nested['satisfies']}",
        f"  expected latency {nested['expected_latency_s']:.4g} s, slack {nested['slack']:g}",
    ]


def _held(own: dict[str, Any]) -> str:
    """A line on KV tokens: those of a full batch, and those in the fluid equilibrium."""
    return f"  a full batch holds {own['kv_tokens']:,.0f} KV tokens; in the fluid equilibrium {own['fluid_kv_tokens']:,.0f}"
