"""The report of a comparison of scheduling policies: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from evenstep.measure.engine_comparison import EngineComparison
from evenstep.measure.engine_records import EngineRun
from evenstep.measure.output_file import replacing
from evenstep.report import engine_plots as plots
from evenstep.report.engine_table import cell, columns_of, count_lines, verdict_lines
from evenstep.report.html import breakable, document, facts, framed
from evenstep.report.numbers import MISSING, relative
from evenstep.report.svg import series_class, series_of


def write_engine_report(comparison: EngineComparison, runs: Mapping[str, EngineRun], path: Path) -> None:
    """Write the report.

    Args:
        comparison: the figures, and what they were made by.
        runs: for each policy, in the comparison's order, its first replicate with its table of iterations.
        path: the file; replaced whole.

    Raises:
        InputError: the file cannot be written.
    """
    with replacing(path) as out:
        out.write(page(comparison, runs).encode())


def page(comparison: EngineComparison, runs: Mapping[str, EngineRun]) -> str:
    """The whole page; see `write_engine_report`."""
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
    """Workload and engine in one line."""
    c, engine = comparison.conditions, comparison.conditions.engine
    ranks = engine.get("data_parallel", 1)
    what = "one engine:" if ranks == 1 else f"one engine of {ranks} ranks in lock-step, each with"
    memory = f"{engine['kv_tokens']:,} KV tokens" if engine["kv_tokens"] else "memory without limit"
    budget = f"{engine['token_budget']:,} tokens an iteration" if engine["token_budget"] else "no token budget"
    return (
        f"{comparison.trace.get('requests', 0):,} requests; {what} {budget}, {memory}, overflow by"
        f" {engine['overflow']}; {c.batch_time}; output lengths believed: {c.bounds}. Simulated."
    )


def _table(comparison: EngineComparison) -> str:
    heads = [*((h, u) for h, u, *_ in columns_of(comparison)), ("verdict", "")]
    head = "".join(f"<th>{escape(h)}<br><small>{escape(u)}</small></th>" for h, u in heads)
    base = comparison.policies[comparison.baseline]
    rows: list[str] = []
    number = series_of(r.policy for r in comparison.policies)
    for result in comparison.policies:
        found = (result.versus if comparison.baseline else result.versus_first) or {}
        cells: list[str] = []
        for *_, name, factor in columns_of(comparison):
            change = relative(found.get(name), base.mean(name), 1, "") if result is not base else ""
            shift, _, half = change.partition(" ±")
            small = f"<br><small>{escape(shift)} %{f'<br>±{half}' if half else ''}</small>"
            small = small if change and change[0] in "+-" else ""
            cells.append(f"<td>{escape(cell(result, name, factor))}{small}</td>")
        cells.append(f"<td>{escape(result.mean('verdict') or MISSING)}</td>")
        swatch = f'<span class="swatch {series_class(number[result.policy])}"></span>'
        name = f"{swatch}{breakable(result.policy)}"
        rows.append(f"<tr><td class='policy'>{name}</td>{''.join(cells)}</tr>")
    said = "".join(f"<p class='hint'>Verdict {escape(line)}</p>" for line in verdict_lines(comparison))
    hint = f"Means over {len(base.seeds)} replicates; small: difference to {base.policy}, ± half a 95 % interval."
    return (
        f"<h2>Figures</h2><p class='hint'>{escape(hint)}</p><div class='scroll'><table><thead><tr><th>policy</th>{head}</tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>{said}"
    )


def _charts(comparison: EngineComparison, runs: Mapping[str, EngineRun]) -> Iterable[str]:
    number = series_of(result.policy for result in comparison.policies)
    legend = "".join(f'<span><span class="swatch {series_class(i)}"></span>{escape(n)}</span>' for n, i in number.items())
    legend = f'<div class="legend">{legend}</div>'
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
    for title, charts in sections.items():
        yield f'<h2>{title}</h2>{legend}<div class="charts">'
        for chart in charts:
            yield framed(*chart)
        yield "</div>"
    yield '<h2>What the batches hold</h2><p class="hint">First replicate. Below the line decodes, above it prefill.</p>'
    yield '<div class="charts">'
    for name, run in runs.items():
        yield framed(name, plots.composition(name, number[name], run), "Tokens of an iteration, mean over stretches.")
    yield "</div>"


def _made_by(comparison: EngineComparison) -> Iterable[str]:
    yield "<h2>How this was made</h2>"
    if comparison.command:
        yield f"<pre>{escape(comparison.command)}</pre>"
    notes = (*comparison.notes, *(f"Counted in {line}" for line in count_lines(comparison)))
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
    conditions = {**comparison.conditions.engine, "batch time": comparison.conditions.batch_time}
    yield (
        f'<div class="facts"><div><h3>Workload</h3>{facts(comparison.trace)}</div>'
        f"<div><h3>Engine</h3>{facts(conditions)}</div><div><h3>Versions</h3>{facts(comparison.versions)}</div></div>"
    )
    rows = "".join(
        f"<tr><td>{escape(r.policy)}</td><td><code>{escape(d)}</code></td><td>{seed}</td></tr>"
        for r in comparison.policies
        for seed, d in zip(r.seeds, r.digests, strict=True)
    )
    yield (
        "<h3>Digests</h3><p class='hint'>SHA-256 over request id, first and last iteration and evictions of every request,"
        " and the final clock.</p><div class='scroll'><table class='digests'><thead><tr><th>policy</th><th>digest</th>"
        f"<th>seed</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
