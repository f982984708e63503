"""A plan of a fleet as lines for a terminal, and as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from evenstep.measure.planned import Planned, Size
from evenstep.report.html import document, framed, legend, made_by, table
from evenstep.report.numbers import MISSING, percent, short
from evenstep.report.svg import Board, Scale, series_of
from evenstep.report.tables import NO_PREFILL, fitted
from evenstep.wording import counted


def lines(found: Planned, width: int | None = None) -> list[str]:
    """The plan as lines of text: demand and objective, the table, conclusions, and what the columns mean.

    Columns beyond `width` letters follow below; None = any width.
    """
    heads, rows = _table(found)
    return [
        *_subject(found),
        "",
        *fitted([*zip(*heads, strict=True), *rows], width),
        "",
        *_conclusions(found),
        *_meanings(found),
    ]


def page(found: Planned, command: str, versions: Mapping[str, str]) -> str:
    """The plan as one HTML page that loads nothing: table, conclusions, and the share that met the objective by workers."""
    heads, rows = _table(found)
    several = len({size.slots for size in found.sizes}) > 1
    names = [_named(size) if several else size.policy for size in found.sizes]
    met = f"Of the fleets that were tried; {100 * found.share:g} % are asked for."
    served = f"With the pool kept full, of the fleets that meet the objective; {found.rate:,.4g} requests/s arrive."
    charts = (
        framed("requests that meet the objective", _by_workers(found, names, "slo_share", 100.0, "% of the requests"), met),
        framed("what the fleet can serve", _by_workers(found, names, "requests_per_s", 1.0, "requests/s"), served),
    )
    parts = [
        "<h1>Plan of a fleet</h1>",
        *(f'<p class="sub">{escape(line)}</p>' for line in _subject(found)),
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in _conclusions(found))}</ul>",
        table(heads, [[*map(escape, row)] for row in rows]),
        *(f'<p class="hint">{escape(line)}</p>' for line in _meanings(found)),
        f'<h2>Fleets that were tried</h2>{legend(names)}<div class="charts">{"".join(charts)}</div>',
        *made_by(command, {"Versions": versions}),
    ]
    return document("plan of a fleet", parts)


def _by_workers(found: Planned, names: Sequence[str], field: str, factor: float, title: str) -> str:
    """SVG chart of one figure of the fleets tried, times `factor`, against their workers; "" if it is known for none."""
    pairs = [
        (name, [(one.workers, factor * getattr(one, field)) for one in size.tried if getattr(one, field) is not None])
        for name, size in zip(names, found.sizes, strict=True)
    ]
    workers, values = (np.array([pair[n] for _, points in pairs for pair in points]) for n in (0, 1))
    if not workers.size:
        return ""
    number = series_of(names)
    room = 0.06 * float(np.ptp(values)) or 1.0
    board = Board(
        Scale(float(workers.min()) - 0.5, float(workers.max()) + 0.5),
        Scale(float(values.min()) - room, float(values.max()) + room),
        label=f"{title} against workers",
    )
    board.axes("workers", title)
    for name, points in pairs:
        across, upward = np.array(points, np.float64).reshape(-1, 2).T
        board.line(across, upward, number[name])
        for x, y in points:
            board.dot(x, y, number[name], float("nan"), float("nan"), f"{name}, {counted(x, 'worker')}: {short(y, 4)}")
    return board.svg()


def _subject(found: Planned) -> list[str]:
    """Two lines: what arrives, and the objective."""
    return [
        f"arrivals: {found.arrivals}; {found.rate:,.4g} requests/s bring {short(found.tokens_per_s, 1)} output tokens/s",
        f"objective: {found.slo} for {100 * found.share:g} % of the requests; {counted(found.replicates, 'replicate')}",
    ]


#: Heading of the column on the next smaller fleet.
_FEWER = "one less"


def _next_smaller(size: Size, share: float) -> str:
    """The share of the requests that met the objective in the next smaller fleet, or that this fleet was too slow."""
    fewer = size.next_smaller
    if fewer is None or size.workers is None:
        return MISSING
    return percent(fewer.slo_share, 1) if fewer.slo_share < share else "too slow"


def _against_even(size: Size) -> str:
    """The rate that a fleet can serve, compared with the closed form, in per cent."""
    even, served = size.closed_form_requests_per_s, size.requests_per_s
    return MISSING if not even or served is None else f"{100 * (served / even - 1):+.1f}"


def _whole(number: int | None, missing: str = MISSING) -> str:
    return missing if number is None else f"{number:,}"


def _ms(seconds: float | None) -> str:
    return short(None if seconds is None else 1e3 * seconds)


#: Heading and unit of each column, and its text for a size, where a given share of the requests has to meet the objective.
_COLUMNS: tuple[tuple[str, str, Callable[[Size, float], str]], ...] = (
    ("policy", "", lambda size, _: size.policy),
    ("slots", "", lambda size, _: str(size.slots)),
    ("workers", "needed", lambda size, _: _whole(size.workers, "none")),
    ("even loads", "workers", lambda size, _: _whole(size.closed_form_workers)),
    ("can serve", "requests/s", lambda size, _: short(size.requests_per_s, 4)),
    ("vs even", "%", lambda size, _: _against_even(size)),
    ("SLO met", "%", lambda size, _: percent(size.slo_share, 1)),
    (_FEWER, "SLO met, %", _next_smaller),
    ("barrier", "% of time", lambda size, _: percent(size.idle_time_share)),
    ("TTFT p95", "s", lambda size, _: short(size.ttft_p95_s)),
    ("TPOT p95", "ms", lambda size, _: _ms(size.tpot_p95_s)),
    ("energy", "J/token", lambda size, _: short(size.joules_per_token)),
    ("cost", "1M tokens", lambda size, _: short(size.cost_per_million_tokens)),
)


def _table(found: Planned) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """(heading and unit of each column, the cells of each row); a price without which there is no column is left out."""
    has_cost = any(size.cost_per_million_tokens is not None for size in found.sizes)
    columns = _COLUMNS if has_cost else _COLUMNS[:-1]
    heads = [(one, NO_PREFILL if one == "TTFT p95" and not found.prefill else unit) for one, unit, _ in columns]
    return heads, [[text(size, found.share) for *_, text in columns] for size in found.sizes]


def _conclusions(found: Planned) -> list[str]:
    """Sentences: policies for which no fleet is enough, the least fleet, and what the others need more."""
    if found.within_reach < found.share:
        alone = f"{100 * found.within_reach:.1f} % of the requests could meet the objective even alone in an idle fleet"
        return [f"No fleet is enough: only {alone}."]
    said = [_not_enough(size, found.most_workers) for size in found.sizes if size.workers is None]
    if found.smallest is None:
        return said
    least = found.sizes[found.smallest]
    said.append(f"Least: {counted(least.workers or 0, 'worker')}, {_named(least)}.")
    for other in found.sizes:
        more = (other.workers or 0) - (least.workers or 0)
        if more > 0:
            said.append(f"{_named(other)} needs {more:,} more (+{100 * more / (least.workers or 1):.1f} %).")
    return said + _theory(found)


def _theory(found: Planned) -> list[str]:
    """A sentence for each number of slots: the workers by the closed forms, which know the rate and not the objective."""
    known = {size.slots: size for size in found.sizes if size.closed_form_workers and size.fcfs_workers}
    return [
        f"Theory with {counted(slots, 'slot')}: keeping up takes {counted(size.closed_form_workers or 0, 'worker')} "
        f"with even loads, and {size.fcfs_workers:,} with the loads of fcfs."
        for slots, size in known.items()
    ]


def _meanings(found: Planned) -> list[str]:
    """Lines that explain the columns that only a plan has."""
    return [
        "even loads: workers that would be enough if all had equal loads at each step, by the closed form.",
        "can serve: with the pool kept full, by simulation; vs even: compared with the closed form for the workers needed.",
        f"{_FEWER}: SLO met with {counted(found.unit, 'worker')} less; too slow: it is met, but that fleet serves less than "
        "the rate.",
    ]


def _named(size: Size) -> str:
    return f"{size.policy} with {counted(size.slots, 'slot')}"


def _not_enough(size: Size, most: int) -> str:
    """A sentence on a policy for which no fleet was enough."""
    largest = size.next_smaller
    if largest is None:
        return f"{_named(size)}: {most:,} workers could not keep up even with even loads. Give a larger --most-workers."
    did = f"{100 * largest.slo_share:.1f} % of the requests meet the objective"
    if largest.requests_per_s is not None:
        did = f"it serves {largest.requests_per_s:,.4g} requests/s"
    return f"{_named(size)}: not enough with {counted(largest.workers, 'worker')}, where {did}."
