"""A comparison as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenstep.measure.comparison import Comparison, Interval, PolicyResult
from evenstep.measure.output_file import replacing
from evenstep.measure.records import Run
from evenstep.report import plots
from evenstep.report.numbers import MISSING, percent, relative, short
from evenstep.report.svg import LIGHT, series_class, series_of
from evenstep.report.tables import NO_PREFILL, error_sentence, replicates_sentence, window_sentence


@dataclass(frozen=True, slots=True)
class Figure:
    """One column of the summary: heading, unit, field, factor to the unit, and whether less is better."""

    heading: str
    unit: str
    field: str
    scale: float = 1.0
    less_is_better: bool = True


FIGURES: tuple[Figure, ...] = (
    Figure("barrier time", "%", "idle_time_share", 100.0),
    Figure("worth", "tokens/s", "barrier_tokens_per_s"),
    Figure("load imbalance", "%", "idle_share", 100.0),
    Figure("imbalance", "KV tokens", "imbalance_envelope_tokens"),
    Figure("spread", "KV tokens", "imbalance_spread_tokens"),
    Figure("full slots", "tokens/s", "full_slot_tokens_per_s", less_is_better=False),
    Figure("whole run", "tokens/s", "tokens_per_s", less_is_better=False),
    Figure("makespan", "s", "makespan_s"),
    Figure("TPOT mean", "ms", "tpot_mean_s", 1e3),
    Figure("TPOT p95", "ms", "tpot_p95_s", 1e3),
    Figure("TTFT p95", "s", "ttft_p95_s"),
    Figure("mean wait", "s", "mean_wait_s"),
    Figure("oldest wait", "s", "oldest_wait_s"),
    Figure("energy", "kJ", "energy_busy_idle_j", 1e-3),
)
#: Style of tables that stand in another page.
_FRAGMENT = (
    ".evenstep .scroll{overflow-x:auto}.evenstep table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".evenstep th,.evenstep td{padding:4px 7px;text-align:right}.evenstep th:first-child,.evenstep td:first-child"
    "{text-align:left}.evenstep thead th small{display:block;font-weight:400}.evenstep .good{color:#1a7f37}"
    ".evenstep .bad{color:#b42318}.evenstep .swatch{display:inline-block;width:11px;height:11px;border-radius:3px;"
    "margin-right:7px;background:currentColor}"
)
SLO_FIGURES = (
    Figure("SLO met", "%", "slo_share", 100.0, less_is_better=False),
    Figure("goodput", "requests/s", "goodput_requests_per_s", less_is_better=False),
)
_PREFIX_HITS = Figure("prefix hits", "% of prompt", "prefix_hit_share", 100.0, less_is_better=False)


def _figures(comparison: Comparison) -> tuple[Figure, ...]:
    """The columns there is something to say in."""
    known = comparison.policies[0].summaries[0]
    found: list[Figure] = []
    for figure in FIGURES:
        if figure.field == "ttft_p95_s" and not comparison.conditions.prefill:
            figure = replace(figure, unit=NO_PREFILL)
        found.append(figure)
        if figure.field == "idle_share" and "prefix_hit_share" in known:
            found.append(_PREFIX_HITS)
        if figure.field == "ttft_p95_s" and "slo_share" in known:
            found += SLO_FIGURES
    return tuple(found)


def write_report(comparison: Comparison, runs: Mapping[str, Run], path: Path) -> None:
    """Write the report of a comparison.

    Args:
        comparison: the figures, and what they were made by.
        runs: for each policy, in the comparison's order, its first replicate with record tables; a chart whose table is
            missing says so.
        path: the file; replaced whole.

    Raises:
        InputError: the file cannot be written, for instance on a full disk.
    """
    with replacing(path) as out:
        out.write(page(comparison, runs).encode())


def page(comparison: Comparison, runs: Mapping[str, Run]) -> str:
    """The whole page; see `write_report`."""
    name = str(comparison.trace.get("name") or "workload")
    parts = [
        f"<h1>Routing policies on {escape(name)}</h1>",
        f'<p class="sub">{escape(subtitle(comparison))}</p>',
        *_lead(comparison),
        _summary(comparison),
        *_differences(comparison),
        *_charts(comparison, runs),
        _made_by(comparison),
    ]
    return document(name, parts)


def document(title: str, parts: Iterable[str]) -> str:
    """A page of these parts with the style sheet inside, and leave to fetch nothing."""
    style = files("evenstep.report").joinpath("report.css").read_text(encoding="utf-8")
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>evenstep: {escape(title)}</title><style>{style}</style></head><body><main>"
    )
    return "\n".join([head, *parts, "</main></body></html>\n"])


def fragment(comparison: Comparison) -> str:
    """The two tables of the report with a style of their own, to stand in another page such as a notebook."""
    colours = "".join(f".evenstep .c{i}{{color:{colour}}}" for i, colour in enumerate(LIGHT))
    parts = [_summary(comparison), *_differences(comparison)]
    return f'<div class="evenstep"><style>{_FRAGMENT}{colours}</style>{"".join(parts)}</div>'


def subtitle(comparison: Comparison) -> str:
    """Workload and fleet in one line."""
    trace, c = comparison.trace, comparison.conditions
    groups = f" in {len(c.group_sizes)} barrier groups" if len(c.group_sizes) > 1 else ""
    arrivals = f"{c.arrivals} arrivals" + (f" with a pool of {c.pool}" if c.arrivals == "saturated" else "")
    law = "" if math.isnan(c.seconds_per_token) else f", t_l = {c.seconds_per_token:g} s a token"
    return (
        f"{trace.get('requests', 0):,} requests, {trace.get('output_tokens', 0):,} output tokens; {c.workers} workers"
        f"{groups}, {c.slots} slots each; {arrivals}; C = {c.overhead_s[0]:g} s{law}. Simulated."
    )


def _lead(comparison: Comparison) -> list[str]:
    """One sentence on what matters most: the best policy that can run live, against the first."""
    first = comparison.policies[0]
    live = [p for p in comparison.policies if not p.oracle and p.mean("idle_time_share") is not None]
    if len(comparison.policies) < 2 or not live or first.mean("idle_time_share") is None:
        return []
    best = min(live, key=lambda p: p.mean("idle_time_share"))
    wasted, at_first = percent(best.mean("idle_time_share"), 1), percent(first.mean("idle_time_share"), 1)
    if best is first:
        return [
            "<p class='lead'>No policy here that can run live wastes less worker time at the barrier than"
            f" <b>{escape(first.policy)}</b>: {at_first} %.</p>"
        ]
    rate = (best.versus_first or {}).get("full_slot_tokens_per_s")
    gain = relative(rate, first.mean("full_slot_tokens_per_s"))
    more = (
        "" if gain == MISSING else f" With all slots full its token rate is {escape(gain)} against {escape(first.policy)}."
    )
    return [
        f"<p class='lead'>Of the policies that can run live, <b>{escape(best.policy)}</b> wastes least worker time at"
        f" the barrier: {wasted} %, where {escape(first.policy)} wastes {at_first} %.{more}</p>"
    ]


def _summary(comparison: Comparison) -> str:
    heads = "".join(f"<th>{f.heading}<small>{f.unit}</small></th>" for f in _figures(comparison))
    rows: list[str] = []
    if comparison.observed is not None:
        result = comparison.observed.result
        cells = "".join(f"<td>{_mean_cell(result, f)}</td>" for f in _figures(comparison))
        name = f'{breakable(result.policy)} <span class="badge base">observed</span>'
        rows.append(f'<tr><td class="policy">{name}</td>{cells}</tr>')
    for number, result in enumerate(comparison.policies):
        cells = "".join(f"<td>{_mean_cell(result, f)}</td>" for f in _figures(comparison))
        rows.append(f'<tr><td class="policy">{_named(comparison, number)}</td>{cells}</tr>')
    return (
        f"<h2>Summary</h2><p class='hint'>{escape(window_sentence(comparison))}"
        " Means over replicates, ± half a 95 % t-interval of the mean. Energy: busy and idle parts of a step priced"
        " apart.</p>"
        f'<div class="scroll"><table><thead><tr><th>policy</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_of_the_log(comparison)}{_yardsticks(comparison)}"
    )


def _of_the_log(comparison: Comparison) -> str:
    """The data taken from a decision log, and the error of the simulator on its run."""
    if comparison.observed is None:
        return ""
    said = " ".join([*comparison.observed.said, error_sentence(comparison)])
    return f'<p class="hint">{escape(said)}</p>'


def _mean_cell(result: PolicyResult, figure: Figure) -> str:
    interval = result.interval(figure.field)
    if interval is None:
        return MISSING
    text = short(interval.value * figure.scale)
    if interval.low is None or interval.high is None:
        return text
    return f"{text}<br><small>±{short((interval.high - interval.low) / 2 * figure.scale, 2)}</small>"


def _named(comparison: Comparison, number: int) -> str:
    """A policy's name with its colour and what has to be known of it."""
    result = comparison.policies[number]
    series = series_of(p.policy for p in comparison.policies)[result.policy]
    badges = ""
    if result.oracle:
        badges += ' <span class="badge">oracle: unreachable live</span>'
    if number == comparison.baseline:
        badges += ' <span class="badge base">baseline</span>'
    return f'<span class="swatch {series_class(series)}"></span>{breakable(result.policy)}{badges}'


def breakable(name: str) -> str:
    """A policy's name that may be broken after its colon and commas."""
    return escape(name).replace(":", ":<wbr>").replace(",", ",<wbr>")


def _yardsticks(comparison: Comparison) -> str:
    even = comparison.yardsticks.get("even_full_slot_tokens_per_s")
    bound = comparison.yardsticks.get("policy_free_bound_s")
    if even is None or bound is None:
        return ""
    return (
        f'<p class="hint">Yardsticks: perfectly even loads with all slots full make {short(even, 4)} tokens/s, and no'
        f" policy finishes this workload before {short(bound, 4)} s.</p>"
    )


def _differences(comparison: Comparison) -> Iterable[str]:
    """Paired differences to the baseline in per cent, green where clearly better and red where clearly worse."""
    base = comparison.policies[comparison.baseline]
    others = [
        (i, p.versus if comparison.baseline else p.versus_first)
        for i, p in enumerate(comparison.policies)
        if i != comparison.baseline
    ]
    if not others:
        return
    heads = "".join(f"<th>{f.heading}<small>{f.unit}</small></th>" for f in _figures(comparison))
    yield f"<h2>Differences to {escape(base.policy)}</h2>"
    yield (
        f"<p class='hint'>{escape(replicates_sentence(comparison))} In per cent of the baseline's mean; coloured where"
        " the interval leaves out 0.</p>"
    )
    rows: list[str] = []
    for number, differences in others:
        cells = "".join(
            _difference_cell((differences or {}).get(f.field), base.mean(f.field), f) for f in _figures(comparison)
        )
        rows.append(f'<tr><td class="policy">{_named(comparison, number)}</td>{cells}</tr>')
    yield (
        f'<div class="scroll"><table><thead><tr><th>policy</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _difference_cell(difference: Interval | None, base: float | None, figure: Figure) -> str:
    text, _, half = relative(difference, base).partition(" ±")
    kind = ""
    if difference is not None and difference.is_clear:
        kind = ' class="good"' if (difference.value < 0) == figure.less_is_better else ' class="bad"'
    return f"<td{kind}>{text}{f'<br><small>±{half}</small>' if half else ''}</td>"


def _charts(comparison: Comparison, runs: Mapping[str, Run]) -> Iterable[str]:
    """Every chart; those of the first replicate say so."""
    names = [p.policy for p in comparison.policies]
    number = series_of(names)
    ordered = {name: runs[name] for name in names if name in runs}
    legend = "".join(f'<span><span class="swatch {series_class(i)}"></span>{escape(n)}</span>' for n, i in number.items())
    legend = f'<div class="legend">{legend}</div>'
    yield "<h2>Load of every worker</h2>"
    yield (
        '<p class="hint">First replicate. A step lasts as long as its heaviest worker needs: the height of the band is'
        " time wasted.</p>"
    )
    bands = plots.load_bands(ordered)
    yield '<div class="charts">'
    for name, svg in bands.items():
        yield f"<figure><h3><span class='swatch {series_class(number[name])}'></span>{escape(name)}</h3>{svg}</figure>"
    yield "</div>" if bands else "</div><p>Worker samples were not recorded.</p>"
    fifths = {p.policy: p.summaries[0].get("waits_by_prompt_fifth", []) for p in comparison.policies}
    mean_wait = plots.waits_by_size(fifths, "mean_wait_s", "mean wait, s")
    oldest_wait = plots.waits_by_size(fifths, "oldest_wait_s", "oldest wait, s")
    sections = {
        "Balance over time": [
            ("Envelope", plots.envelope_over_time(ordered), "Load of the heaviest worker."),
            ("Idle share", plots.idle_over_time(ordered), "Worker time spent waiting at the barrier."),
        ],
        "Distributions": [
            ("Imbalance", plots.imbalance_distribution(ordered), "Steps of the steady window, cumulative."),
            ("Time per output token", plots.tpot_distribution(ordered), "All requests, cumulative."),
        ],
        "Energy": [
            (
                "Power",
                plots.power_over_time(ordered),
                "While stepping, busy and idle parts of a step priced apart.",
            ),
            ("Energy", plots.energy(comparison), "Whole run, drain included, mean over replicates."),
        ],
        "Who waits": [
            ("Mean wait by prompt size", mean_wait, "Shortest prompts left, longest right."),
            (
                "Oldest wait by prompt size",
                oldest_wait,
                "Never cut off at the end: a policy that starves shows here.",
            ),
        ],
    }
    for title, charts in sections.items():
        yield f'<h2>{title}</h2>{legend}<div class="charts">'
        for chart in charts:
            yield framed(*chart)
        yield "</div>"


def framed(title: str, svg: str, caption: str) -> str:
    """A chart with its title and caption."""
    body = svg or "<p>Not recorded.</p>"
    return f"<figure><h3>{escape(title)}</h3>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def _made_by(comparison: Comparison) -> str:
    """Everything needed to make the figures again."""
    parts = ["<h2>How this was made</h2>"]
    if comparison.command:
        parts.append(f"<pre>{escape(comparison.command)}</pre>")
    parts.append(f"<p>{escape(replicates_sentence(comparison))}</p>")
    if comparison.notes:
        parts.append(f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in comparison.notes)}</ul>")
    shared = asdict(comparison.conditions)
    for name in ("policy", "predictor", "oracle", "seed"):
        del shared[name]
    parts += [
        '<div class="facts">',
        f"<div><h3>Workload</h3>{facts(comparison.trace)}</div>",
        f"<div><h3>Conditions</h3>{facts({**shared, 'seeds': comparison.seeds})}</div>",
        f"<div><h3>Versions</h3>{facts(comparison.versions)}</div>",
        "</div>",
    ]
    rows = "".join(
        f"<tr><td>{escape(p.policy)}</td><td><code>{escape(d)}</code></td><td>{seed}</td></tr>"
        for p in comparison.policies
        for seed, d in zip(p.seeds, p.digests, strict=True)
    )
    parts.append(
        "<h3>Digests</h3><p class='hint'>SHA-256 over request id, worker, admission step and completion step of every"
        " request, and the final clock.</p>"
        '<div class="scroll"><table class="digests"><thead><tr><th>policy</th><th>digest</th><th>seed</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return "\n".join(parts)


def facts(values: Mapping[str, Any]) -> str:
    """Names and values as a list."""
    rows = "".join(f"<dt>{escape(str(k).replace('_', ' '))}</dt><dd>{escape(_said(v))}</dd>" for k, v in values.items())
    return f"<dl>{rows}</dl>"


def _said(value: Any) -> str:
    """A setting in words."""
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return ", ".join(_said(item) for item in items)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
