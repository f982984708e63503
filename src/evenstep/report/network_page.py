"""Runs of an agent network as lines for a terminal, as JSON-ready values, and as one self-contained HTML file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from evenstep.measure.comparison import mean_interval, paired_difference
from evenstep.measure.metrics import known
from evenstep.measure.network_records import LIVE
from evenstep.report.html import document, embedded, framed, legend, made_by, table
from evenstep.report.numbers import MISSING, relative, short
from evenstep.report.plots import lines
from evenstep.report.svg import series_of
from evenstep.report.tables import aligned
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.measure.comparison import Interval
    from evenstep.measure.network_records import Live, LiveOrdered, NetworkRun, Ordered
    from evenstep.theory.stations import Checked, Judged

#: Heading and figure of each column of the comparison of orders.
COLUMNS = (
    ("task mean s", "task_mean_s"),
    ("task p95 s", "task_p95_s"),
    ("call mean s", "call_mean_s"),
    ("tasks/s", "tasks_per_s"),
    ("tokens left", "tokens_left"),
)
#: Most engines that the terminal lists and a chart draws; a report lists all.
MOST_ENGINES = 16
#: What a chart over time shows of each engine: field of `NetworkRun`, and its title.
OVER_TIME = {"tokens": "tokens still to run", "requests": "calls in the engine"}


def order_rows(found: Sequence[Ordered]) -> list[list[str]]:
    """Headings, and a row for each order: means ± half a 95 % interval (change from the first), tasks left, verdict.

    If the verdicts of its runs differ, they are joined by slashes.
    """
    rows = [["order", *(head for head, _ in COLUMNS), "unfinished", "verdict"]]
    for one in found:
        cells = [_cell(one.mean(figure), (one.versus or {}).get(figure)) for _, figure in COLUMNS]
        verdicts = "/".join(dict.fromkeys(run.summary["verdict"] or MISSING for run in one.runs))
        rows.append([one.order, *cells, short(one.mean("unfinished_tasks").value), verdicts])
    return rows


def order_lines(found: Sequence[Ordered]) -> list[str]:
    """All that a terminal shows of orders: their tables, the first run's engines, and the digest of each first run."""
    lines: list[str] = []
    for rows in (order_rows(found), type_rows(found)):
        lines += [*aligned(rows), ""] if rows else []
    means = f"Means over {counted(len(found[0].runs), 'replicate')}"
    lines += [*engine_lines(found[0].runs[0]), "", f"{means}; engines: the first one under {found[0].order}."]
    return [*lines, *(f"digest {one.order}: {one.runs[0].digest[:16]}" for one in found)]


def type_rows(found: Sequence[Ordered]) -> list[list[str]]:
    """Headings, and a row for each order: for each type of task the mean latency (s) ± half its interval (change).

    No rows if there is one type.
    """
    types = found[0].runs[0].types
    if len(types) < 2:
        return []
    rows = [["order", *(f"{name} mean s" for name in types)]]
    for one in found:
        cells: list[str] = []
        for name in types:
            values, base = _of_type(one, name), _of_type(found[0], name)
            cells.append(_cell(mean_interval(values), None if one is found[0] else paired_difference(values, base)))
        rows.append([one.order, *cells])
    return rows


def _of_type(one: Ordered, name: str) -> list[float]:
    """Mean latency of the tasks of one type in each run of an order, seconds."""
    return [run.summary["types"][name]["task_mean_s"] for run in one.runs]


def engine_rows(run: NetworkRun) -> list[list[str]]:
    """Headings, and a row for each engine: busy share, calls, calls and tokens left, and verdict."""
    rows = [["engine", "busy %", "calls", "unfinished", "tokens left", "verdict"]]
    for name, one in run.summary["engines"].items():
        busy, verdict = f"{100 * one['busy_share']:.1f}", one["verdict"] or MISSING
        rows.append([name, busy, f"{one['requests']:,}", f"{one['unfinished']:,}", f"{one['tokens_left']:,}", verdict])
    return rows


def engine_lines(run: NetworkRun) -> list[str]:
    """`engine_rows` of the first 16 engines as lines, and a count of the others."""
    rows = engine_rows(run)
    more = len(rows) - 1 - MOST_ENGINES
    return [*aligned(rows[: 1 + MOST_ENGINES]), *([f"and {counted(more, 'more engine')}"] if more > 0 else [])]


def judged_rows(judged: Judged, run: NetworkRun | None = None) -> list[list[str]]:
    """Headings, and a row for each engine or virtual station with its load.

    With a run, a last column has simulated verdicts: of a group of engines the worst, of a virtual station the network's.
    """
    rows = [["station", "load", "by its load", *(["simulated"] if run else [])]]
    for one in judged.engines:
        simulated = [_simulated(run, one.engines[0])] if run else []
        rows.append([one.engines[0], short(one.load, 4), _by_load(one.load), *simulated])
    for one in judged.stations:
        name = f"virtual: {' + '.join(one.calls)}"
        rows.append([name, short(one.load, 4), _by_load(one.load), *([run.summary["verdict"] or MISSING] if run else [])])
    return rows


def judged_lines(judged: Judged, run: NetworkRun | None = None) -> list[str]:
    """`judged_rows` as lines, then the verdict by loads."""
    return [*aligned(judged_rows(judged, run)), f"by loads: {judged.verdict}; {judged.why}"]


def _by_load(load: float) -> str:
    """The judgement on a load as text: ``overloaded``, ``below 1`` or ``exactly 1``; `MISSING` for nan."""
    if math.isnan(load):
        return MISSING
    return "overloaded" if load > 1 else "below 1" if load < 1 else "exactly 1"


def checked_lines(checked: Checked) -> list[str]:
    """The lines of `judged_lines`, then the simulated verdict, then a line for each overloaded virtual station.

    Such a line compares the growth of its work in the run, in seconds a second, with the growth that its load predicts.
    """
    run = checked.run
    lines = judged_lines(checked.judged, run)
    verdict = run.summary["verdict"] or "no verdict, because all tasks arrive at once"
    arriving = f", tasks arrive until {short(run.counted_s, 4)} s" if 0 < run.counted_s < run.until_s else ""
    lines.append(f"simulated to {short(run.until_s, 4)} s{arriving}: {verdict}; {_worst(run)}")
    for name, (fluid, seen) in checked.growth.items():
        lines.append(f"work of {name} grows by {seen:.3f} s a second; its load says {fluid:.3f}")
    return lines


def judged_object(judged: Judged) -> dict[str, Any]:
    """The loads as a JSON-ready dict: ``verdict``, ``why``, ``engines`` and ``virtual_stations`` with their loads."""
    return {
        "verdict": judged.verdict,
        "why": judged.why,
        "engines": [{"engine": one.engines[0], "load": known(one.load)} for one in judged.engines],
        "virtual_stations": [{"calls": list(one.calls), "load": known(one.load)} for one in judged.stations],
    }


def order_object(one: Ordered) -> dict[str, Any]:
    """One order as a JSON-ready dict: ``order``, ``seeds``, ``digests``, ``summaries``, ``versus_first`` (None = first)."""
    return {
        "order": one.order,
        "seeds": [run.seed for run in one.runs],
        "digests": [run.digest for run in one.runs],
        "summaries": [known(run.summary) for run in one.runs],
        "versus_first": _differences(one.versus),
    }


def _differences(versus: Mapping[str, Interval] | None) -> dict[str, Any] | None:
    """Differences as JSON-ready dicts of value, low and high; None for None."""
    if versus is None:
        return None
    return known({name: {"value": one.value, "low": one.low, "high": one.high} for name, one in versus.items()})


def live_lines(pairs: Sequence[tuple[NetworkRun, Live]]) -> list[str]:
    """A heading, and two lines for each pair: the same tasks in the simulator, then live; latencies in seconds."""
    rows = [["order", "seed", "run", "task mean s", "task p95 s", "call mean s", "tasks", "unfinished", "failed calls"]]
    for run, live in pairs:
        left = run.summary["unfinished_tasks"]
        figures = [[short(one[name]) for name in LIVE] for one in (run.summary, live.latencies)]
        rows.append([run.order, str(run.seed), "simulated", *figures[0], f"{live.tasks:,}", f"{left:,}", MISSING])
        rows.append(["", "", "live", *figures[1], f"{live.tasks:,}", f"{live.unfinished:,}", f"{live.failed:,}"])
    return aligned(rows)


def live_order_lines(found: Sequence[LiveOrdered]) -> list[str]:
    """A heading, and a line for each result: means ± half a 95 % interval, and the change from the first order in per cent.

    `found` is a result of `live_orders`: for each order the simulated run, then the live one.
    """
    heads = {name: head for head, name in COLUMNS}
    rows = [["order", "run", *(heads[name] for name in LIVE)]]
    for one in found:
        cells = [_cell(one.means[name], (one.versus or {}).get(name)) for name in LIVE]
        rows.append([one.order if one.way == "simulated" else "", one.way, *cells])
    return aligned(rows)


def live_order_object(one: LiveOrdered) -> dict[str, Any]:
    """A JSON-ready dict: ``order``, ``run`` (simulated or live), and differences ``versus_first`` (None = first)."""
    return {"order": one.order, "run": one.way, "versus_first": _differences(one.versus)}


def live_object(run: NetworkRun, live: Live) -> dict[str, Any]:
    """A run and its live counterpart as a JSON-ready dict: ``order``, ``seed``, figures ``simulated`` and ``live``."""
    found = {"tasks": live.tasks, "unfinished_tasks": live.unfinished, "failed_calls": live.failed, **live.latencies}
    return {"order": run.order, "seed": run.seed, "simulated": known(run.summary), "live": known(found)}


def fragment(found: Sequence[Ordered]) -> str:
    """The tables of orders and of the first run's engines as an HTML ``div`` with its own style, for another page."""
    return embedded([*_orders(found), *_engines(found[0].runs[0])])


def page(found: Sequence[Ordered], judged: Judged | None, command: str = "") -> str:
    """The whole report as HTML text: orders, loads, then engines and charts of the first order's first run, and command.

    Without `judged` it has no loads.
    """
    run = found[0].runs[0]
    title = f"Network {run.name}".rstrip()
    engines = counted(len(run.engines), "engine")
    said = f"{counted(run.summary['tasks'], 'task')} done, {engines}, {short(run.until_s, 4)} s. Simulated."
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(said)}</p>',
        *_orders(found),
        *(_loads(judged, run) if judged is not None else ()),
        *_engines(run),
        legend(list(run.engines)[:MOST_ENGINES]),
        '<div class="charts">',
        *_charts(run),
        "</div>",
        *made_by(command, {}, [f"digest {one.order}: {one.runs[0].digest}" for one in found]),
    ]
    return document(title, parts)


def _orders(found: Sequence[Ordered]) -> Iterable[str]:
    """The section of orders, as pieces of HTML."""
    means = f"Means over {counted(len(found[0].runs), 'replicate')}, ± half a 95 % interval."
    change = f" Small: change from {found[0].order}." if len(found) > 1 else ""
    yield f'<h2>Orders</h2><p class="hint">{means}{escape(change)}</p>'
    yield from (_tabled(rows) for rows in (order_rows(found), type_rows(found)) if rows)


def _loads(judged: Judged, run: NetworkRun) -> Iterable[str]:
    """The section of loads, as pieces of HTML."""
    yield "<h2>Loads and verdicts</h2>"
    yield _tabled(judged_rows(judged, run))
    yield f'<p class="hint">{escape(f"By loads: {judged.verdict}; {judged.why}.")}</p>'


def _engines(run: NetworkRun) -> Iterable[str]:
    """The heading and the table of a run's engines, as pieces of HTML."""
    yield f"<h2>Engines under {escape(run.order)}, first replicate</h2>"
    yield _tabled(engine_rows(run))


def _tabled(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text, the first one of headings, as an HTML table; what is in brackets goes to a line of its own."""
    heads = (text.rpartition(" ") if text.endswith((" s", " %")) else (text, "", "") for text in rows[0])
    body = ([re.sub(r" \((.*)\)$", r"<br><small>\1</small>", escape(text)) for text in row] for row in rows[1:])
    return table([(name, unit) for name, _, unit in heads], body)


def _charts(run: NetworkRun) -> Iterable[str]:
    """Charts over time of tokens and calls, as HTML, for the first 16 engines."""
    number = series_of(list(run.engines)[:MOST_ENGINES])
    for name, title in OVER_TIME.items():
        values = getattr(run, name).astype(np.float64)
        series = [(own, run.times_s, values[:, k]) for k, own in enumerate(number.values())]
        caption = f"By engine. First replicate under {run.order}."
        yield framed(title.capitalize(), lines(series, f"{title} over time", "time, s", title), caption)


def _cell(mean: Interval, change: Interval | None) -> str:
    """A mean ± half its interval, and in brackets the change in per cent of the first order's mean; `MISSING` for nan."""
    if math.isnan(mean.value):
        return MISSING
    text = short(mean.value) + ("" if mean.low is None else f" ±{short(mean.value - mean.low)}")
    if change is None or mean.value == change.value or math.isnan(change.value):
        return text
    return f"{text} ({relative(change, mean.value - change.value, 1)})"


def _simulated(run: NetworkRun, engine: str) -> str:
    """The simulated verdict on an engine; for a group of engines the worst of them."""
    own = [run.summary["engines"][name]["verdict"] for name in run.groups[engine]]
    return next((word or MISSING for word in ("unstable", "undecided", None) if word in own), "stable")


def _worst(run: NetworkRun) -> str:
    """A clause on the engines whose queue grows, the first four by name; else on the engine with the most tokens left."""
    unstable = [name for name, one in run.summary["engines"].items() if one["verdict"] == "unstable"]
    if unstable:
        return f"calls pile up at {', '.join(unstable[:4])}"
    most = max(run.summary["engines"].items(), key=lambda item: item[1]["tokens_left"])
    return f"the most tokens wait at {most[0]}, {most[1]['tokens_left']:,}"
