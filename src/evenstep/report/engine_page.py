"""The report of a comparison of scheduling policies: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from evenstep.measure.engine_comparison import EngineComparison
from evenstep.measure.engine_records import EngineRun
from evenstep.report import engine_plots as plots
from evenstep.report.engine_table import cell, columns_of, count_lines, verdict_lines
from evenstep.report.html import breakable, charts_in, digests, document, framed, made_by, swatch, table
from evenstep.report.numbers import MISSING, relative
from evenstep.report.svg import series_of
from evenstep.wording import counted


def page(comparison: EngineComparison, runs: Mapping[str, EngineRun]) -> str:
    """The whole HTML report as text; it loads nothing.

    `runs` has the first replicate of each policy, in the comparison's order. Charts over time need its table of iterations;
    without it they read "Not recorded.".
    """
    name = str(comparison.trace.get("name") or "workload")
    parts = [
        f"<h1>Scheduling policies on {escape(name)}</h1>",
        f'<p class="sub">{escape(subtitle(comparison))}</p>',
        _table(comparison),
        *_charts(comparison, runs),
        *_made_by(comparison),
    ]
    return document(name, parts)


def subtitle(comparison: EngineComparison) -> str:
    """The line below the heading, as plain text: requests, engine, batch-time law, and source of believed output lengths."""
    c, engine = comparison.conditions, comparison.conditions.engine
    ranks = engine.get("data_parallel", 1)
    what = "one engine:" if ranks == 1 else f"one engine of {ranks} ranks in lock-step, each with"
    memory = counted(engine["kv_tokens"], "KV token") if engine["kv_tokens"] else "memory without limit"
    budget = f"{counted(engine['token_budget'], 'token')} an iteration" if engine["token_budget"] else "no token budget"
    return (
        f"{counted(comparison.trace.get('requests', 0), 'request')}; {what} {budget}, {memory}, overflow by"
        f" {engine['overflow']}; {c.batch_time}; output lengths believed: {c.bounds}. Simulated."
    )


def _table(comparison: EngineComparison) -> str:
    """The table of figures as HTML: means, differences to the baseline in per cent, verdicts and their explanations."""
    base = comparison.policies[comparison.baseline]
    number = series_of(r.policy for r in comparison.policies)
    rows: list[list[str]] = []
    for result in comparison.policies:
        cells = [swatch(number[result.policy]) + breakable(result.policy)]
        found = comparison.differences(result)
        for *_, name, factor in columns_of(base.summaries[0]):
            shift, _, half = relative(found.get(name), base.mean(name), 1, "").partition(" ±")
            small = f"<br><small>{escape(shift)} %{f'<br>±{half}' if half else ''}</small>"
            cells.append(escape(cell(result, name, factor)) + (small if shift != MISSING else ""))
        rows.append([*cells, escape(result.mean("verdict") or MISSING)])
    said = "".join(f"<p class='hint'>Verdict {escape(line)}</p>" for line in verdict_lines(comparison))
    hint = f"Means over {counted(len(base.seeds), 'replicate')}; small: difference to {base.policy}, ± half a 95 % interval."
    heads = [("policy", ""), *((heading, unit) for heading, unit, *_ in columns_of(base.summaries[0])), ("verdict", "")]
    return f"<h2>Figures</h2><p class='hint'>{escape(hint)}</p>{table(heads, rows)}{said}"


def _charts(comparison: EngineComparison, runs: Mapping[str, EngineRun]) -> Iterable[str]:
    names = [result.policy for result in comparison.policies]
    sections = {
        "Latency": [
            ("Mean against tail", plots.mean_against_p99(comparison), "Means over replicates; left and below is better."),
            ("End-to-end latency", plots.latencies(runs, "e2e", "end-to-end latency"), "First replicate, cumulative."),
            ("Time to first token", plots.latencies(runs, "ttft", "time to first token"), "First replicate, cumulative."),
        ],
        "Over time": [
            ("Queue", plots.over_time(runs, "waiting", "queue over time", "requests waiting"), "First replicate."),
            ("KV memory", plots.over_time(runs, "kv_held", "memory over time", "KV tokens held"), "First replicate."),
            ("Running", plots.over_time(runs, "running", "running over time", "requests running"), "First replicate."),
            ("Iteration time", plots.over_time(runs, "seconds", "iteration time", "seconds"), "First replicate."),
        ],
    }
    yield from charts_in(sections, names)
    number = series_of(names)
    yield '<h2>What the batches hold</h2><p class="hint">First replicate. Below the line decodes, above it prefill.</p>'
    yield '<div class="charts">'
    for name, run in runs.items():
        yield framed(name, plots.composition(name, number[name], run), "Tokens of an iteration, mean over stretches.")
    yield "</div>"


def _made_by(comparison: EngineComparison) -> Iterable[str]:
    """The last section as pieces of HTML: command, workload, engine, versions, notes and digests."""
    notes = (*comparison.notes, *(f"Counted in {line}" for line in count_lines(comparison)))
    conditions = {**comparison.conditions.engine, "batch time": comparison.conditions.batch_time}
    known = {"Workload": comparison.trace, "Engine": conditions, "Versions": comparison.versions}
    yield from made_by(comparison.command, known, notes)
    yield digests(comparison, "request id, first and last iteration and evictions")
