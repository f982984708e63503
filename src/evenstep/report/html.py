"""A comparison as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any

from evenstep.measure.comparison import Compared, Comparison, Interval, PolicyResult
from evenstep.measure.records import Run
from evenstep.report import plots
from evenstep.report.numbers import MISSING, percent, relative, short
from evenstep.report.svg import LIGHT, REST, series_class, series_of
from evenstep.report.tables import NO_PREFILL, error_sentence, mean_text, replicates_sentence, window_sentence
from evenstep.wording import counted


@dataclass(frozen=True, slots=True)
class Figure:
    """One column of the report's tables."""

    heading: str  # shown above it
    unit: str  # shown above it
    field: str  # name of the figure in the summaries
    scale: float = 1.0  # factor from the summary's unit to `unit`, for instance 1e3 from seconds to ms
    less_is_better: bool = True  # True if a lower value is coloured as better


FIGURES: tuple[Figure, ...] = (
    Figure("barrier time", "%", "idle_time_share", 100.0),
    Figure("worth", "tokens/s", "barrier_tokens_per_s"),
    Figure("load imbalance", "%", "idle_share", 100.0),
    Figure("prefix hits", "% of prompt", "prefix_hit_share", 100.0, less_is_better=False),
    Figure("imbalance", "KV tokens", "imbalance_envelope_tokens"),
    Figure("spread", "KV tokens", "imbalance_spread_tokens"),
    Figure("full slots", "tokens/s", "full_slot_tokens_per_s", less_is_better=False),
    Figure("whole run", "tokens/s", "tokens_per_s", less_is_better=False),
    Figure("makespan", "s", "makespan_s"),
    Figure("TPOT mean", "ms", "tpot_mean_s", 1e3),
    Figure("TPOT p95", "ms", "tpot_p95_s", 1e3),
    Figure("TTFT p95", "s", "ttft_p95_s"),
    Figure("SLO met", "%", "slo_share", 100.0, less_is_better=False),
    Figure("goodput", "requests/s", "goodput_requests_per_s", less_is_better=False),
    Figure("mean wait", "s", "mean_wait_s"),
    Figure("oldest wait", "s", "oldest_wait_s"),
    Figure("energy", "kJ", "energy_busy_idle_j", 1e-3),
)
#: CSS of tables in another page.
_FRAGMENT = (
    ".evenstep .scroll{overflow-x:auto}.evenstep table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".evenstep th,.evenstep td{padding:4px 7px;text-align:right}.evenstep th:first-child,.evenstep td:first-child"
    "{text-align:left}.evenstep thead th small{display:block;font-weight:400}.evenstep .good{color:#1a7f37}"
    ".evenstep .bad{color:#b42318}.evenstep .swatch{display:inline-block;width:11px;height:11px;border-radius:3px;"
    "margin-right:7px;background:currentColor}.evenstep .rest{opacity:0.35}.evenstep td.policy{min-width:130px}"
)


def figure_of(metric: str) -> Figure:
    """The `Figure` of a metric in report tables; for an unknown metric one with its name, no unit and factor 1."""
    return next((one for one in FIGURES if one.field == metric), Figure(metric.replace("_", " "), "", metric))


def title_of(metric: str) -> str:
    """The axis title of a metric: ``heading, unit`` of `figure_of`, or the heading alone if it has no unit."""
    shown = figure_of(metric)
    return f"{shown.heading}, {shown.unit}" if shown.unit else shown.heading


def _figures(comparison: Comparison) -> tuple[Figure, ...]:
    """The columns of this comparison's tables: the `FIGURES` that its summaries have."""
    known = comparison.policies[0].summaries[0]
    said = {} if comparison.conditions.prefill else {"unit": NO_PREFILL}
    return tuple(replace(f, **said) if f.field == "ttft_p95_s" else f for f in FIGURES if f.field in known)


def page(comparison: Comparison, runs: Mapping[str, Run]) -> str:
    """The whole report of a comparison as HTML text; it loads nothing.

    `runs` has the first replicate of each policy, with record tables. A policy without a run or table has no line in a
    chart; a chart without any line says that it was not recorded.
    """
    name = str(comparison.trace.get("name") or "workload")
    parts = [
        f"<h1>Routing policies on {escape(name)}</h1>",
        f'<p class="sub">{escape(subtitle(comparison))}</p>',
        *_lead(comparison),
        _summary(comparison),
        *_differences(comparison),
        *_charts(comparison, runs),
        *_made_by(comparison),
    ]
    return document(name, parts)


def document(title: str, parts: Iterable[str]) -> str:
    """A whole HTML page as text, with the style sheet in it and a security policy that forbids loading anything.

    `title` is plain text, shown after "evenstep: "; `parts` are the HTML of the body, used as it is.
    """
    style = files("evenstep.report").joinpath("report.css").read_text(encoding="utf-8")
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>evenstep: {escape(title)}</title><style>{style}</style></head><body><main>"
    )
    return "\n".join([head, *parts, "</main></body></html>\n"])


def fragment(comparison: Comparison) -> str:
    """The tables of means and of differences as an HTML ``div`` with its own style, for another page such as a notebook."""
    return embedded([_summary(comparison), *_differences(comparison)])


def embedded(parts: Iterable[str]) -> str:
    """Pieces of HTML as one ``div`` with a style of its own, for another page."""
    colours = "".join(f".evenstep .c{i}{{color:{colour}}}" for i, colour in enumerate(LIGHT))
    return f'<div class="evenstep"><style>{_FRAGMENT}{colours}</style>{"".join(parts)}</div>'


def subtitle(comparison: Comparison) -> str:
    """The line below the heading, as plain text: requests, tokens, fleet, arrivals, C (its range over groups), and t_l."""
    trace, c = comparison.trace, comparison.conditions
    groups = f" in {len(c.group_sizes)} barrier groups" if len(c.group_sizes) > 1 else ""
    arrivals = f"{c.arrivals} arrivals" + (f" with a pool of {c.pool}" if c.arrivals == "saturated" else "")
    law = "" if math.isnan(c.seconds_per_token) else f", t_l = {c.seconds_per_token:g} s a token"
    costs = " to ".join(f"{one:g}" for one in sorted({min(c.overhead_s), max(c.overhead_s)}))
    fleet = counted(c.workers, "worker")
    slots = f"{counted(c.slots, 'slot')} each" if c.slots_total == c.slots * c.workers else f"{c.slots_total} slots in all"
    return (
        f"{counted(trace.get('requests', 0), 'request')}, {counted(trace.get('output_tokens', 0), 'output token')}; {fleet}"
        f"{groups}, {slots}; {arrivals}; C = {costs} s{law}. Simulated."
    )


def _lead(comparison: Comparison) -> list[str]:
    """A paragraph of HTML: the best policy that can run live against the first; empty for one policy, or without values."""
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
    against = f" With all slots full its token rate is {escape(gain)} against {escape(first.policy)}."
    more = "" if gain == MISSING else against
    return [
        f"<p class='lead'>Of the policies that can run live, <b>{escape(best.policy)}</b> wastes least worker time at"
        f" the barrier: {wasted} %, where {escape(first.policy)} wastes {at_first} %.{more}</p>"
    ]


def _summary(comparison: Comparison) -> str:
    """The section with the table of means as HTML: recorded run, policies, and the sentences that explain them."""

    def cells(result: PolicyResult) -> list[str]:
        return [_two_lines(mean_text(result.interval(f.field), f.scale)) for f in _figures(comparison)]

    rows = [[_named(comparison, number), *cells(result)] for number, result in enumerate(comparison.policies)]
    told = ""
    if comparison.observed is not None:
        result, said = comparison.observed.result, [*comparison.observed.said, error_sentence(comparison)]
        rows.insert(0, [f'{breakable(result.policy)} <span class="badge base">observed</span>', *cells(result)])
        told = f'<p class="hint">{escape(" ".join(said))}</p>'
    return (
        f"<h2>Summary</h2><p class='hint'>{escape(window_sentence(comparison))}"
        " Means over replicates, ± half a 95 % t-interval of the mean. Energy: busy and idle parts of a step priced"
        f" apart.</p>{_policy_table(comparison, rows)}{told}{_yardsticks(comparison)}"
    )


def _policy_table(comparison: Comparison, rows: Iterable[Sequence[str]], unit: str = "") -> str:
    """An HTML table with policies in the first column and a column for each of `_figures`; `unit` replaces their units."""
    return table([("policy", ""), *((f.heading, unit or f.unit) for f in _figures(comparison))], rows)


def table(heads: Iterable[tuple[str, str]], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """An HTML table that scrolls if it is wider than the page.

    Args:
        heads: heading and unit of each column, plain text; an empty unit is not shown.
        rows: the cells, as HTML, at least one a row. A cell that begins with ``<td`` is used as it is, except a first one.
        kind: CSS class of the table, such as ``texts``; empty = the first column is set as names of policies.
    """
    head = "".join(f"<th>{escape(name)}{f'<small>{escape(unit)}</small>' if unit else ''}</th>" for name, unit in heads)
    first = "<td>" if kind else '<td class="policy">'
    body = "".join(
        f"<tr>{first}{name}</td>{''.join(c if c.startswith('<td') else f'<td>{c}</td>' for c in cells)}</tr>"
        for name, *cells in rows
    )
    begin = f'<table class="{kind}">' if kind else "<table>"
    return f'<div class="scroll">{begin}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _two_lines(text: str) -> str:
    """Text ``12.3 ±0.4`` as HTML on two lines; other text unchanged."""
    figure, _, half = text.partition(" ±")
    return f"{figure}<br><small>±{half}</small>" if half else figure


def _named(comparison: Compared[Any], number: int) -> str:
    """The name of a policy, given by its index, as HTML: colour, and badges for an oracle and for the baseline."""
    result = comparison.policies[number]
    badges = ORACLE_BADGE if result.oracle else ""
    if number == comparison.baseline:
        badges += ' <span class="badge base">baseline</span>'
    return f"{swatch(series_of(plots.best_first(comparison))[result.policy])}{breakable(result.policy)}{badges}"


#: HTML that marks a policy that cannot run live.
ORACLE_BADGE = ' <span class="badge">oracle: unreachable live</span>'


def swatch(series: int) -> str:
    """A small square in a policy's colour, as HTML; `series` is the policy's number in `series_of`."""
    return f'<span class="swatch {series_class(series)}"></span>'


def legend(names: Iterable[str], badges: Mapping[str, str] | None = None) -> str:
    """A legend of policies as HTML: colour, name, and the HTML that `badges` has for the name; empty text without names.

    Policies in grey have one entry together.
    """
    number = series_of(names)
    found = [f"{swatch(i)}{escape(n)}{(badges or {}).get(n, '')}" for n, i in number.items() if i != REST]
    if len(found) < len(number):
        found.append(f"{swatch(REST)}{counted(len(number) - len(found), 'other')}, in grey")
    return f'<div class="legend">{"".join(f"<span>{one}</span>" for one in found)}</div>' if found else ""


def breakable(name: str) -> str:
    """A policy's name as HTML that may wrap after its colon and commas."""
    return escape(name).replace(":", ":<wbr>").replace(",", ",<wbr>")


def _yardsticks(comparison: Comparison) -> str:
    """A paragraph of HTML with the two bounds that hold for every policy; empty text if one is unknown."""
    even = comparison.yardsticks.get("even_full_slot_tokens_per_s")
    bound = comparison.yardsticks.get("policy_free_bound_s")
    if even is None or bound is None:
        return ""
    return (
        f'<p class="hint">Yardsticks: perfectly even loads with all slots full make {short(even, 4)} tokens/s, and no'
        f" policy finishes this workload before {short(bound, 4)} s.</p>"
    )


def _differences(comparison: Comparison) -> Iterable[str]:
    """Pieces of HTML: a table of paired differences to the baseline in per cent, clear ones in green (better) or red.

    There are no pieces for a single policy.
    """
    base = comparison.policies[comparison.baseline]
    others = [(i, comparison.differences(p)) for i, p in enumerate(comparison.policies) if i != comparison.baseline]
    if not others:
        return
    yield f"<h2>Differences to {escape(base.policy)}</h2>"
    yield (
        f"<p class='hint'>{escape(replicates_sentence(comparison))} In per cent of the baseline's mean; coloured where"
        " the interval leaves out 0.</p>"
    )
    bases = [(figure, base.mean(figure.field)) for figure in _figures(comparison)]
    rows = [
        [_named(comparison, i), *(_difference_cell(found.get(f.field), at, f) for f, at in bases)] for i, found in others
    ]
    yield _policy_table(comparison, rows, unit="%")


def _difference_cell(difference: Interval | None, base: float | None, figure: Figure) -> str:
    """A ``td`` with a difference in per cent of `base`; its class is good or bad if the interval leaves out 0."""
    kind = ""
    if difference is not None and difference.is_clear:
        kind = ' class="good"' if (difference.value < 0) == figure.less_is_better else ' class="bad"'
    return f"<td{kind}>{_two_lines(relative(difference, base, 1, ''))}</td>"


def _charts(comparison: Comparison, runs: Mapping[str, Run]) -> Iterable[str]:
    """All charts of the report as pieces of HTML; all but that of energy show the first replicate."""
    names = plots.best_first(comparison)
    number = series_of(names)
    ordered = {name: runs[name] for name in names if name in runs}
    yield "<h2>Load of every worker</h2>"
    yield (
        '<p class="hint">First replicate. A step lasts as long as its heaviest worker needs: the height of the band is'
        f" time wasted.{_coloured(number)}</p>"
    )
    bands = plots.load_bands(ordered)
    yield '<div class="charts">'
    for name, svg in bands.items():
        yield f"<figure><h3>{swatch(number[name])}{escape(name)}</h3>{svg}</figure>"
    yield "</div>" if bands else "</div><p>Worker samples were not recorded.</p>"
    first = {p.policy: p.summaries[0] for p in comparison.policies}
    fifths = {name: first[name].get("waits_by_prompt_fifth", []) for name in names}
    mean_wait = plots.waits_by_size(fifths, "mean_wait_s", "mean wait, s")
    oldest_wait = plots.waits_by_size(fifths, "oldest_wait_s", "oldest wait, s")
    power = "While stepping, busy and idle parts of a step priced apart."
    oldest = "Never cut off at the end: a policy that starves shows here."
    sections = {
        "Balance over time": [
            ("Envelope", plots.envelope_over_time(ordered), "Load of the heaviest worker."),
            ("Time lost at the barrier", plots.idle_over_time(ordered), "Share of the workers' time spent waiting."),
        ],
        "Distributions": [
            ("Imbalance", plots.imbalance_distribution(ordered), "Steps of the steady window, cumulative."),
            ("Time per output token", plots.tpot_distribution(ordered), "All requests, cumulative."),
        ],
        "Energy": [
            ("Power", plots.power_over_time(ordered), power),
            ("Energy", plots.energy(comparison), "Whole run, drain included, mean over replicates."),
        ],
        "Who waits": [
            ("Mean wait by prompt size", mean_wait, "Shortest prompts left, longest right."),
            ("Oldest wait by prompt size", oldest_wait, oldest),
        ],
    }
    yield from charts_in(sections, names)


def _coloured(number: Mapping[str, int]) -> str:
    """A sentence on the policies in colour, if others are grey; else empty."""
    few = sum(series != REST for series in number.values())
    return "" if few == len(number) else f" In colour: the baseline, and the {few - 1} that lose least at the barrier."


def charts_in(sections: Mapping[str, Sequence[tuple[str, str, str]]], names: Iterable[str]) -> Iterable[str]:
    """Charts as pieces of HTML. `sections`: heading -> (title, SVG, caption) of each chart; each has a legend of `names`."""
    above = legend(names)
    for title, charts in sections.items():
        yield f'<h2>{title}</h2>{above}<div class="charts">'
        yield from (framed(*chart) for chart in charts)
        yield "</div>"


def framed(title: str, svg: str, caption: str) -> str:
    """A chart as an HTML figure with title and caption; an empty `svg` is replaced by "Not recorded."."""
    body = svg or "<p>Not recorded.</p>"
    return f"<figure><h3>{escape(title)}</h3>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def _made_by(comparison: Comparison) -> Iterable[str]:
    """The last section as pieces of HTML: command, workload, conditions, versions, notes and digests."""
    shared = asdict(comparison.conditions)
    for name in ("policy", "predictor", "oracle", "seed"):
        del shared[name]
    known = {"Workload": comparison.trace, "Conditions": {**shared, "seeds": comparison.seeds}}
    yield from made_by(comparison.command, known | {"Versions": comparison.versions}, comparison.notes)
    yield f"<p>{escape(replicates_sentence(comparison))}</p>"
    yield digests(comparison, "request id, worker, admission step and completion step")


def made_by(command: str, known: Mapping[str, Mapping[str, Any]], notes: Sequence[str] = ()) -> Iterable[str]:
    """The section "How this was made" as pieces of HTML: the command line (unless empty), the notes, then the facts.

    `command` and `notes` are plain text. `known`: heading -> names and values, as `facts` shows them.
    """
    yield "<h2>How this was made</h2>"
    if command:
        yield f"<pre>{escape(command)}</pre>"
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
    lists = (f"<div><h3>{escape(title)}</h3>{facts(values)}</div>" for title, values in known.items())
    if known:
        yield f'<div class="facts">{"".join(lists)}</div>'


def digests(comparison: Compared[Any], of: str) -> str:
    """An HTML table of the digest and seed of every run; `of` is text on the facts of a request that a digest covers."""
    rows = [
        [escape(p.policy), f"<code>{escape(d)}</code>", str(seed)]
        for p in comparison.policies
        for seed, d in zip(p.seeds, p.digests, strict=True)
    ]
    found = table([("policy", ""), ("digest", ""), ("seed", "")], rows, "texts")
    return f"<h3>Digests</h3><p class='hint'>SHA-256 over {of} of every request, and the final clock.</p>{found}"


def facts(values: Mapping[str, Any]) -> str:
    """Names and values as an HTML list; underscores in names become spaces, and values become words (``yes``, ``1,200``)."""
    rows = "".join(f"<dt>{escape(str(k).replace('_', ' '))}</dt><dd>{escape(_said(v))}</dd>" for k, v in values.items())
    return f"<dl>{rows}</dl>"


def _said(value: Any) -> str:
    """A value as text for readers: ``yes``, ``none``, ``1,200``, or a list with commas."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))  # pyright: ignore[reportUnknownArgumentType]
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
