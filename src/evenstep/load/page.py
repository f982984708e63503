"""Shows runs of `evenstep load` as lines of text, and as one HTML file that loads no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np

from evenstep.load.run import BUCKET_S, Outcome
from evenstep.load.summary import PERCENTILES, times, tokens_of
from evenstep.report import html
from evenstep.report.numbers import short
from evenstep.report.plots import distribution, lines
from evenstep.report.svg import series_of
from evenstep.request import F8
from evenstep.wording import counted

_NAMES = (("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl"), ("E2EL", "e2el"))
_KINDS = ("mean", "median", *(f"p{p}" for p in PERCENTILES))
_POINTS = 300
#: Name, title, label, unit, whether the axis is logarithmic, and caption of each distribution.
_DISTRIBUTIONS = (
    ("TTFT", "Time to first token", "time to first token", "ms", True, "From sending a request."),
    ("TPOT", "Time per output token", "time per output token", "ms", False, "After the first token."),
    ("ITL", "Inter-token latency", "gaps between chunks", "ms", False, "Between chunks of one answer."),
    ("E2EL", "End-to-end latency", "time to the end", "s", True, "From sending a request to the end of its answer."),
)


#: One run to show: its results, and its figures as `summary.summary` returns them.
Shown: TypeAlias = tuple[Outcome, dict[str, Any]]


def table(found: dict[str, Any]) -> list[str]:
    """One run's figures, from `summary.summary`, as lines of text; the last five are a table of latencies in ms."""
    failed = ", ".join(f"{count} {kind}" for kind, count in found["errors_by_kind"].items())
    good = found["request_goodput"]
    out = [
        f"requests    {found['completed']:,} of {found['num_prompts']:,} good in {found['duration']:.1f} s"
        + (f"; failed: {failed}" if failed else ""),
        f"throughput  {short(found['request_throughput'])} requests/s, {short(found['output_throughput'])} output tokens/s, "
        f"{short(found['total_token_throughput'])} tokens/s with prompts"
        + ("" if good is None else f"; goodput {short(good)} requests/s"),
        f"at once     {counted(found['max_concurrent_requests'], 'request')} at most; "
        f"{counted(found['connections'], 'connection')}; "
        + ("tokens estimated" if found["counting"] == "estimated" else f"tokens counted by {found['counting']}"),
        f"client      starts late by {short(found['mean_late_start_ms'])} ms on average, "
        f"{short(found['p99_late_start_ms'])} p99; {100 * found['client_cpu_share']:.0f} % of a core",
        "",
        f"{'ms':<6}" + "".join(f"{kind:>10}" for kind in _KINDS),
    ]
    for name, key in _NAMES:
        out.append(f"{name:<6}" + "".join(f"{short(found[f'{kind}_{key}_ms']):>10}" for kind in _KINDS))
    return out


def page(title: str, runs: Mapping[str, Shown], lead: Sequence[str], made_by: Mapping[str, Any], command: str) -> str:
    """The text of one HTML page with a table of latencies and six charts.

    Args:
        title, command: plain text; the command is the one that made the page.
        runs: the runs to compare, by name, in the order of their display.
        lead: paragraphs below the title, as HTML.
        made_by: facts on how the page was made, by name.
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
    """Title, SVG and caption of each of six charts; each chart shows all runs.

    Four charts are distributions: TTFT, TPOT (of over one token) and E2EL of good answers, and gaps between chunks of all.
    Two are figures over time: output tokens a second, and requests under way.
    """
    shown = [(number, outcome) for number, (outcome, _) in zip(series_of(runs).values(), runs.values(), strict=True)]
    values = [(number, _values(outcome)) for number, outcome in shown]
    charts: list[tuple[str, str, str]] = []
    for name, title, label, unit, log, caption in _DISTRIBUTIONS:
        share = f"share of {'gaps' if name == 'ITL' else 'requests'}, %"
        found = [(number, each[name]) for number, each in values]
        charts.append((title, distribution(found, label, f"{name}, {unit}", share, log=log), caption))
    tokens = [(number, *_rate(outcome)) for number, outcome in shown]
    running = [(number, *_running(outcome)) for number, outcome in shown]
    return [
        *charts,
        ("Output tokens", lines(tokens, "output tokens over time", "time, s", "tokens/s"), "As they reached the client."),
        ("Requests under way", lines(running, "requests under way over time", "time, s", "requests"), "Sent and not ended."),
    ]


def _values(outcome: Outcome) -> dict[str, F8]:
    """Values of each distribution of a run, by name: TTFT, TPOT and ITL (as 1001 quantiles) in ms, E2EL in seconds."""
    good = np.array([not error for error in outcome.records.error], np.bool_)
    ttft, tpot, e2el = times(outcome)
    shares = np.linspace(0.0, 1.0, 1001) if outcome.gaps.total else np.zeros(0)
    return {
        "TTFT": 1e3 * ttft[good],
        "TPOT": 1e3 * tpot[good & (outcome.records.output_tokens > 1)],
        "ITL": 1e3 * outcome.gaps.quantiles(shares),
        "E2EL": e2el[good],
    }


def _table(runs: Mapping[str, Shown]) -> str:
    """The latencies of all runs in milliseconds as an HTML table, four rows a run."""
    rows = [
        [f"{html.swatch(number)}{escape(run)} {name}", *(short(found[f"{kind}_{key}_ms"]) for kind in _KINDS)]
        for (run, (_, found)), number in zip(runs.items(), series_of(runs).values(), strict=True)
        for name, key in _NAMES
    ]
    return html.table([("", ""), *((kind, "ms") for kind in _KINDS)], rows)


def _rate(outcome: Outcome) -> tuple[F8, F8]:
    """Middle (s) and output tokens a second of each equal stretch of a run, float64[M] each; stretches of 1 s, M <= 300.

    A run of more than 300 s has longer stretches.
    """
    each = max(round(1 / BUCKET_S), -(-outcome.tokens.size // _POINTS))
    tokens = tokens_of(outcome, each)
    width = each * BUCKET_S
    at: F8 = np.arange(tokens.size, dtype=np.float64) * width + 0.5 * width
    return at, tokens / width


def _running(outcome: Outcome) -> tuple[F8, F8]:
    """300 equally spaced times (s) up to the last end, and the number of requests under way at each; float64[300] each."""
    r = outcome.records
    started, ended = np.sort(r.started_s[np.isfinite(r.started_s)]), np.sort(r.ended_s[np.isfinite(r.ended_s)])
    at = np.linspace(0.0, float(ended[-1]) if ended.size else 1.0, _POINTS)
    under_way = np.searchsorted(started, at, side="right") - np.searchsorted(ended, at, side="right")
    return at, under_way.astype(np.float64)
