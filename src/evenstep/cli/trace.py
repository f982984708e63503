"""``evenstep trace`` shows the statistics of a trace (``inspect``), or writes it as evenstep's own Parquet (``convert``)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from evenstep.cli.parts import flags, outputs
from evenstep.measure.output_file import replacing
from evenstep.wording import counted


class Trace:
    summary = "inspect a trace file, or convert it to Parquet"
    description = (
        "Look at a workload (rows, rate, burstiness, lengths, sessions, shared prefixes) or convert it.\n"
        "evenstep recognises the format of a file; give it with --format-name where that fails."
    )
    examples = (
        "evenstep trace inspect sample:azure-conv",
        "evenstep trace inspect requests.jsonl.gz --format json",
        "evenstep trace inspect mooncake.jsonl.gz --format-name mooncake:ticks=keep --plot trace.html",
        "evenstep trace convert requests.csv.gz requests.parquet --limit 100000",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="inspect|convert")
        inspect = actions.add_parser("inspect", help="show what a trace is like")
        flags.add_reading(inspect)
        flags.add_format(inspect)
        inspect.add_argument("--plot", metavar="FILE", help="also draw it, to .html, .png or .svg")
        convert = actions.add_parser("convert", help="write a trace as Parquet")
        flags.add_reading(convert)
        convert.add_argument("out", metavar="OUT.parquet", help="file to write")

    def run(self, args: argparse.Namespace) -> int:
        return _inspect(args) if args.action == "inspect" else _convert(args)


command = Trace()


def _inspect(args: argparse.Namespace) -> int:
    from evenstep.workload import reading, statistics
    from evenstep.workload.sources import first_trace

    outputs.check_report(args.plot, "--plot", ".html", ".png", ".svg")
    path, form = reading.file_of(args.file), flags.format_of(args, args.format_name)
    if form is None and path.suffix not in {".yaml", ".yml"} and statistics.is_generator(path):
        found, trace = statistics.describe_clients(path), None
    else:
        trace = first_trace(flags.workload_of(args), args.seed)
        found = statistics.describe(trace)
    rows = _rows(found)
    width = max(len(label) for label, _ in rows)
    lines = [f"{label:<{width}}  {value}" for label, value in rows]
    lines += [f"note: {note}" for note in found["notes"]]
    if args.plot is not None:
        from evenstep.report import trace_plots

        place = Path(args.plot)
        if trace is None:
            trace_plots.save_clients(path, found, place)
        else:
            trace_plots.save_trace(trace, found, place)
        lines.append(f"Drawn to {args.plot}")
    return outputs.answer(args, found, lines)


def _convert(args: argparse.Namespace) -> int:
    from evenstep.workload.readers import parquet
    from evenstep.workload.sources import first_trace

    outputs.check_report(args.out, "OUT", ".parquet")
    out = Path(args.out)
    trace = first_trace(flags.workload_of(args), args.seed)
    with replacing(out) as file:
        file.write(parquet.packed(trace))
    told = sys.stdout if out.is_file() else sys.stderr  # a device may be stdout, which then has the Parquet file
    for note in trace.notes:
        print(note, file=told)
    print(f"{counted(len(trace), 'request')} written to {out}", file=told)
    return 0


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each statistic of `describe` or `describe_clients` that has a value, not None."""
    rows = [("file", f"{found['name']} ({found['format']})")]
    if "clients" in found:
        rows += [
            ("clients", f"{found['clients']}, {found['clients_with_lengths']} with lengths"),
            ("requests implied", f"{found['requests_implied']:,}"),
            ("span", _seconds(found["span_s"])),
            ("rate", f"{found['requests_per_s']:.4g} requests/s, peak/mean {found['peak_to_mean']:.2f}"),
            ("CV of gaps", f"{found['cv_gaps']:.2f} (of each client, weighted by rate)"),
            ("10 busiest clients", f"{found['top_10_share']:.0%} of requests"),
        ]
        return rows + [(name.replace("_", " "), _lengths(law)) for name, law in found["lengths"].items()]
    rows.append(("requests", f"{found['rows']:,}"))
    if found["span_s"] is not None:
        rows.append(("span", _seconds(found["span_s"])))
    if found["requests_per_s"] is not None:
        rows.append(("rate", f"{found['requests_per_s']:.4g} requests/s"))
    if found["cv_gaps"] is not None:
        windows = found["cv_gaps_5min"]
        inside = "" if windows is None else f", {windows:.2f} inside 5-minute windows"
        rows.append(("CV of gaps", f"{found['cv_gaps']:.2f}{inside}"))
    rows += [("prompt tokens", _lengths(found["prompt_tokens"])), ("output tokens", _lengths(found["output_tokens"]))]
    rows.append(("at the largest output", f"{found['share_at_largest']:.2%}"))
    sessions = found["sessions"]
    if sessions is not None:
        most = sessions["requests_p50"]
        spread = f"{most:g} request{'s' * (most != 1)} each at the median, at most {sessions['requests_max']:,}"
        rows.append(("sessions", f"{sessions['count']:,}, {spread}"))
        if sessions["think_s"] is not None:
            think = sessions["think_s"]
            rows.append(("think time", f"mean {think['mean']:.3g} s, p50 {think['p50']:.3g} s, p95 {think['p95']:.3g} s"))
    if found["classes"] is not None:
        rows.append(("classes", str(found["classes"])))
    if found["prefix_share"] is not None:
        rows.append(("prefix blocks seen before", f"{found['prefix_share']:.1%}"))
    rows.append(("digest", found["digest"][:16]))
    return rows


def _lengths(law: dict[str, float]) -> str:
    quantiles = ", ".join(f"{name} {law[name]:,.0f}" for name in ("p50", "p95", "p99", "max"))
    return f"mean {law['mean']:,.1f}, {quantiles}"


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value < 7200 else f"{value:,.0f} s ({value / 3600:.1f} h)"
