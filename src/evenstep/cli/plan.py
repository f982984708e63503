"""``evenstep plan`` finds how many workers a fleet needs under each routing policy (`planning.planner.answer`)."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from evenstep.cli.parts import flags, outputs
from evenstep.config import check_at_least
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.experiments.planning.planner import Answer
    from evenstep.experiments.planning.settings import PlanSettings
    from evenstep.experiments.planning.sizing import Size


class PlanCommand:
    summary = "find how many workers a fleet needs for a rate and an objective"
    description = (
        "Searches the least fleet that keeps up with a rate of arrivals and meets an objective, for each policy and number\n"
        "of slots. It simulates each fleet that it tries: once with requests that arrive at the rate, and once with a pool\n"
        "that is kept full. The closed form takes all loads for equal; the difference to it is what imbalance costs.\n"
        "Arrivals are Poisson; lengths are drawn from trace or laws."
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

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.experiments.planning.planner import answer
        from evenstep.experiments.planning.settings import PlanSettings, checked

        check_at_least("evenstep plan", 1, args, "processes")
        settings = checked(flags.settled(args, PlanSettings))
        found = answer(settings, args.processes, outputs.bar(args.format))
        value = {"version": 1, "command": args.command_line, "versions": outputs.versions(), **asdict(found)}
        return outputs.answer(args, value, _lines(found, settings))


command = PlanCommand()

#: Heading of the column on the next smaller fleet.
_FEWER = "one less"
#: Heading and unit of each column of the table.
_HEADINGS = (
    ("policy", ""),
    ("slots", ""),
    ("workers", "needed"),
    ("even loads", "workers"),
    ("can serve", "requests/s"),
    ("vs even", "%"),
    ("SLO met", "%"),
    (_FEWER, "SLO met, %"),
    ("barrier", "% of time"),
    ("TTFT p95", "s"),
    ("TPOT p95", "ms"),
    ("energy", "J/token"),
    ("cost", "1M tokens"),
)


def _lines(found: Answer, settings: PlanSettings) -> list[str]:
    """The answer as lines of text: demand and objective, the table, and what it says."""
    from evenstep.report.tables import NO_PREFILL, fitted

    headings = [*_HEADINGS]
    if settings.prefill_base_s + settings.prefill_per_token_s == 0:
        headings = [(one, NO_PREFILL if one == "TTFT p95" else unit) for one, unit in headings]
    rows = [*zip(*headings, strict=True), *(_cells(size, found.share) for size in found.sizes)]
    shown = [row if settings.worker_cost is not None else row[:-1] for row in rows]
    return [
        f"arrivals: {found.arrivals}; {found.rate:,.4g} requests/s bring {found.tokens_per_s:,.0f} output tokens/s",
        f"objective: {settings.slo} for {100 * found.share:g} % of the requests; {counted(settings.seeds, 'replicate')}",
        "",
        *fitted(shown, outputs.terminal_width()),
        "",
        *_conclusions(found, settings),
    ]


def _cells(size: Size, share: float) -> tuple[str, ...]:
    """The cells of one row, as `_HEADINGS` names them; `share` of the requests have to meet the objective."""
    from evenstep.report.numbers import MISSING, percent, short

    def whole(number: int | None, missing: str = MISSING) -> str:
        return missing if number is None else f"{number:,}"

    fewer, even, served = size.fewer, size.closed_form_requests_per_s, size.requests_per_s
    if fewer is None or size.workers is None:
        next_smaller = MISSING
    else:
        next_smaller = percent(fewer.slo_share, 1) if fewer.slo_share < share else "too slow"
    return (
        size.policy,
        str(size.slots),
        whole(size.workers, "none"),
        whole(size.closed_form_workers),
        short(served, 4),
        MISSING if not even or served is None else f"{100 * (served / even - 1):+.1f}",
        percent(size.slo_share, 1),
        next_smaller,
        percent(size.idle_time_share),
        short(size.ttft_p95_s),
        short(None if size.tpot_p95_s is None else 1e3 * size.tpot_p95_s),
        short(size.joules_per_token),
        short(size.cost_per_million_tokens),
    )


def _conclusions(found: Answer, settings: PlanSettings) -> list[str]:
    """Sentences: the least fleet and what the others need more, fleets that are not enough, and what to run next."""
    lines = [line for size in found.sizes if size.workers is None for line in [_not_enough(size, settings.most_workers)]]
    if found.smallest is None:
        return lines
    least = found.sizes[found.smallest]
    lines.append(f"Least: {counted(least.workers or 0, 'worker')}, {_named(least)}.")
    for other in found.sizes:
        more = (other.workers or 0) - (least.workers or 0)
        if more > 0:
            lines.append(f"  {_named(other)} needs {more:,} more (+{100 * more / (least.workers or 1):.1f} %).")
    less = counted(max(1, settings.group_size), "worker")
    return [
        *lines,
        "even loads: workers that would be enough if all had equal loads at each step, by the closed form.",
        "can serve: with the pool kept full, by simulation; vs even: compared with the closed form for the workers needed.",
        f"{_FEWER}: the same with {less} less; too slow: the objective is met, but the fleet serves less than the rate.",
    ]


def _named(size: Size) -> str:
    return f"{size.policy} with {counted(size.slots, 'slot')}"


def _not_enough(size: Size, most: int) -> str:
    """A sentence on a policy for which no fleet was enough."""
    if size.fewer is None:
        return f"{_named(size)}: {most:,} workers could not keep up even with even loads. Give a larger --most-workers."
    served = f"{100 * size.fewer.slo_share:.1f} % of the requests meet the objective"
    if size.fewer.requests_per_s is not None:
        served = f"it serves {size.fewer.requests_per_s:,.4g} requests/s"
    return f"{_named(size)}: not enough with {counted(size.fewer.workers, 'worker')}, where {served}."
