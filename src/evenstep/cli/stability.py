"""``evenstep stability`` finds the largest arrival rate at which an engine keeps up under each scheduling policy.

It prints that rate, the closed form if any, and the verdict at a given rate (`experiments.stability.answer`).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from evenstep.cli.parts import flags, outputs
from evenstep.config.number import check_at_least
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.experiments.stability import Answer, Judged


class StabilityCommand:
    summary = "find the largest arrival rate at which an engine keeps up"
    description = (
        "Bisects the arrival rate on the simulator, for each policy and replicate, and prints the largest stable rate with\n"
        "its 95 % interval. It also prints the closed form, or the reason why the theory has no closed form. With --rate,\n"
        "or a trace that has times, it also judges that rate. Arrivals are Poisson; lengths are drawn from trace or laws."
    )
    examples = (
        "evenstep stability 129/112 --engine token-budget=512,batch-limit=0,first-token=decode",
        "evenstep stability sample:azure-conv --policy sarathi --policy vanilla-vllm --rate 3",
        "evenstep stability geometric:mean=129/geometric:mean=112 --policy faster-transformer:group=32 --format json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from evenstep.experiments.stability import StabilitySettings

        text = "trace file, workload YAML, sample:azure-conv, or laws of lengths PROMPT/OUTPUT, e.g. 129/112"
        parser.add_argument("source", nargs="?", default=argparse.SUPPRESS, metavar="TRACE|LAWS", help=text)
        text = "a scheduling policy (default sarathi); may be given many times"
        flags.add_many(parser, "--policy", "NAME[:...]", text, dest="policies")
        flags.add_flags(parser, StabilitySettings, leave_out=("source", "policies"))
        flags.add_format(parser)
        flags.add_processes(parser)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.compare.engine_settings import EngineSettings, idle
        from evenstep.experiments.stability import StabilitySettings, answer

        check_at_least("evenstep stability", 1, args, "processes")
        settings = flags.settled(args, StabilitySettings).value
        found = answer(settings, args.processes)
        outputs.remark(idle(EngineSettings(engine=settings.engine)))
        value = {"version": 1, "command": args.command_line, "versions": outputs.versions(), **asdict(found)}
        return outputs.answer(args, value, _lines(found, settings.seeds, settings.precision))


command = StabilityCommand()


def _lines(found: Answer, seeds: int, precision: float) -> list[str]:
    """The answer as lines of text: the arrivals; for each policy the verdict at the given rate and the lines of `_rates`."""
    lines = [f"arrivals: {found.arrivals}"]
    for one in found.policies:
        lines.append("")
        if one.at_rate is not None:
            drift = one.at_rate.drift.value / one.at_rate.arrivals_per_s
            lines.append(
                f"{one.policy} at {found.rate:.4g} requests/s: {one.at_rate.verdict}; "
                f"the backlog grows by {100 * drift:.2f} % of what arrives"
            )
        lines += [f"{one.policy}: {line}" for line in _rates(one, seeds, precision)]
    return lines


def _rates(one: Judged, seeds: int, precision: float) -> list[str]:
    """Lines on one policy: its largest stable rate, the closed form or the reason why there is none, and its note."""
    from evenstep.report.tables import mean_text

    runs = f"{counted(seeds, 'replicate')}, bisected to {100 * precision:g} %"
    lines = [f"largest stable rate {mean_text(one.largest_requests_per_s)} requests/s ({runs})"]
    closed, largest = one.closed_form, one.largest_requests_per_s.value
    if closed.requests_per_s is not None:
        off = 100 * (closed.requests_per_s / largest - 1) if largest else float("inf")
        lines.append(f"closed form {closed.requests_per_s:.4g} requests/s, {off:+.1f} %: {closed.says}")
    else:
        bound = "" if closed.at_most is None else f"; at most {closed.at_most:.4g} requests/s for any policy (eq. 2.8)"
        lines.append(f"no closed form: {closed.says}{bound}")
    return [*lines, f"note: {one.note}"] if one.note else lines
