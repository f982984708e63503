"""Runs of `evenstep load` as a table of lines, and as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from evenstep.load.run import Outcome
from evenstep.load.summary import PERCENTILES, times
from evenstep.report import html
from evenstep.report.numbers import short
from evenstep.report.plots import distribution, lines
from evenstep.report.svg import series_of
from evenstep.request import F8

_NAMES = (("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl"), ("E2EL", "e2el"))
_KINDS = ("mean", "median", *(f"p{p}" for p in PERCENTILES))
_POINTS = 300


@dataclass(frozen=True, slots=True)
class Shown:
    """One run of a page.

    Args:
        outcome: the run's results.
        summary: its figures, from `summary.summary`.
    """

    outcome: Outcome
    summary: dict[str, Any]


def table(found: dict[str, Any]) -> list[str]:
    """The figures of one run as lines of text for a terminal; the last five are a table of latencies in milliseconds.

    `found` has the figures, from `summary.summary`.
    """
    failed = ", ".join(f"{count} {kind}" for kind, count in found["errors_by_kind"].items())
    good = found["request_goodput"]
    out = [
        f"requests    {found['completed']:,} of {found['num_prompts']:,} good in {found['duration']:.1f} s"
        + (f"; failed: {failed}" if failed else ""),
        f"throughput  {short(found['request_throughput'])} requests/s, {short(found['output_throughput'])} output tokens/s, "
        f"{short(found['total_token_throughput'])} tokens/s with prompts"
        + ("" if good is None else f"; goodput {short(good)} requests/s"),
        f"at once     {found['max_concurrent_requests']:,} requests at most; {found['connections']:,} connections; "
        f"tokens counted by {found['counting']}",
        f"client      starts late by {short(found['mean_late_start_ms'])} ms on average, "
        f"{short(found['p99_late_start_ms'])} p99; {100 * found['client_cpu_share']:.0f} % of a core",
        "",
        f"{'ms':<6}" + "".join(f"{kind:>10}" for kind in _KINDS),
    ]
    for name, key in _NAMES:
        out.append(f"{name:<6}" + "".join(f"{short(found[f'{kind}_{key}_ms']):>10}" for kind in _KINDS))
    return out


def page(title: str, runs: Mapping[str, Shown], lead: Sequence[str], made_by: Mapping[str, Any], command: str) -> str:
    """The text of one HTML page with a table of latencies and six charts; it loads no other file.

    Args:
        title: as plain text.
        runs: by name, in order.
        lead: paragraphs on top, as HTML.
        made_by: facts on how it was made, by name.
        command: the command line that made it, as plain text.
    """
    charts = charts_of(runs)
    parts = [
        f"<h1>{escape(title)}</h1>",
        *lead,
        "<h2>Latencies</h2>",
        _table(runs),
        *html.charts_in({"Distributions": charts[:4], "Over time": charts[4:]}, runs if len(runs) > 1 else ()),
        "<h2>How this was made</h2>",
        f"<pre>{escape(command)}</pre>",
        html.facts(made_by),
    ]
    return html.document(title, parts)


def charts_of(runs: Mapping[str, Shown]) -> list[tuple[str, str, str]]:
    """Title, SVG and caption of six charts, each with all runs: four distributions, then two figures over time.

    The distributions are of TTFT, TPOT and E2EL of good answers and of the gaps of all answers, the figures output tokens
    a second and requests under way.
    """
    shown = list(zip(series_of(runs).values(), runs.values(), strict=True))
    values: dict[str, list[tuple[int, F8]]] = {name: [] for name in ("TTFT", "TPOT", "E2EL", "ITL")}
    for number, run in shown:
        good = np.array([not error for error in run.outcome.records.error], np.bool_)
        several = good & (run.outcome.records.output_tokens > 1)
        ttft, tpot, e2el = times(run.outcome)
        values["TTFT"].append((number, 1e3 * ttft[good]))
        values["TPOT"].append((number, 1e3 * tpot[several]))
        values["E2EL"].append((number, e2el[good]))
        gaps = run.outcome.gaps
        shares = np.linspace(0.0, 1.0, 1001) if gaps.total else np.zeros(0)
        values["ITL"].append((number, 1e3 * gaps.quantiles(shares)))
    what = "share of requests, %"
    tokens = [(i, *_rate(run.outcome)) for i, run in shown]
    running = [(i, *_running(run.outcome)) for i, run in shown]
    return [
        (
            "Time to first token",
            distribution(values["TTFT"], "time to first token", "TTFT, ms", what, log=True),
            "From sending a request.",
        ),
        (
            "Time per output token",
            distribution(values["TPOT"], "time per output token", "TPOT, ms", what),
            "After the first token.",
        ),
        (
            "Inter-token latency",
            distribution(values["ITL"], "gaps between chunks", "ITL, ms", "share of gaps, %"),
            "Between chunks of one answer.",
        ),
        (
            "End-to-end latency",
            distribution(values["E2EL"], "time to the end", "E2EL, s", what, log=True),
            "From sending a request to the end of its answer.",
        ),
        ("Output tokens", lines(tokens, "output tokens over time", "time, s", "tokens/s"), "As they reached the client."),
        ("Requests under way", lines(running, "requests under way over time", "time, s", "requests"), "Sent and not ended."),
    ]


def _table(runs: Mapping[str, Shown]) -> str:
    rows = [
        [f"{html.swatch(number)}{escape(run)} {name}", *(short(shown.summary[f"{kind}_{key}_ms"]) for kind in _KINDS)]
        for (run, shown), number in zip(runs.items(), series_of(runs).values(), strict=True)
        for name, key in _NAMES
    ]
    return html.table([("", ""), *((kind, "ms") for kind in _KINDS)], rows)


def _rate(outcome: Outcome) -> tuple[F8, F8]:
    """Times and output tokens a second, over stretches of a second or of a three-hundredth of the run."""
    each = max(round(1 / outcome.bucket_s), -(-outcome.tokens.size // _POINTS))
    padded = np.concatenate([outcome.tokens, np.zeros(-outcome.tokens.size % each, np.int64)]).reshape(-1, each)
    width = each * outcome.bucket_s
    at: F8 = np.arange(padded.shape[0], dtype=np.float64) * width + 0.5 * width
    return at, padded.sum(axis=1) / width


def _running(outcome: Outcome) -> tuple[F8, F8]:
    """Times, and requests under way at them."""
    r = outcome.records
    started, ended = np.sort(r.started_s[np.isfinite(r.started_s)]), np.sort(r.ended_s[np.isfinite(r.ended_s)])
    at = np.linspace(0.0, float(ended[-1]) if ended.size else 1.0, _POINTS)
    under_way = np.searchsorted(started, at, side="right") - np.searchsorted(ended, at, side="right")
    return at, under_way.astype(np.float64)
