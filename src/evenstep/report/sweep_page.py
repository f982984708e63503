"""A sweep over parameters as one self-contained HTML file, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import combinations
from pathlib import Path

from evenstep.measure.output_file import write_text
from evenstep.measure.swept import Swept, value_text
from evenstep.report.html import ORACLE_BADGE, document, figure_of, framed, legend, made_by, table, title_of
from evenstep.report.sweep_plots import against, over_two
from evenstep.report.tables import ORACLE_NOTE, cut_names, fitted, full_names, mean_text, name_limit
from evenstep.wording import counted

#: Most numeric parameters whose pairs get heat maps.
PAIRED = 3
#: Rows of the table of figures in the report, and on a terminal.
PAGE_ROWS, TERMINAL_ROWS = 500, 60


def write_sweep(swept: Swept, path: Path) -> None:
    """Write the report of a sweep, an HTML file that loads nothing. `InputError` if the file cannot be written."""
    write_text(path, page(swept))


def page(swept: Swept) -> str:
    """The whole page as HTML text; it loads no other file. Its table of figures has at most `PAGE_ROWS` rows."""
    title = f"Sweep of {_listed(swept.parameters)}"
    taken = {name: _taken(swept, name) for name in swept.parameters}
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(subtitle(swept))}</p>',
        *(part for metric in swept.metrics for part in _metric(swept, metric)),
        *_figures(swept),
        *made_by(swept.command, {"Swept": taken, "Fixed": swept.fixed, "Versions": swept.versions}),
    ]
    return document(title, parts)


def subtitle(swept: Swept) -> str:
    """A line of plain text: the numbers of points and policies of a sweep, and of replicates (fewest to most)."""
    counts = sorted({len(runs) for point in swept.runs for runs in point})
    fewest = "" if len(counts) == 1 else f"{counts[0]} to "
    return (
        f"{counted(len(swept.points), 'point')} of a {'grid' if swept.grid else 'Latin hypercube'},"
        f" {counted(len(swept.policies), 'policy', 'policies')},"
        f" {fewest}{counted(counts[-1], 'replicate')} each. Simulated."
    )


def until_sentence(swept: Swept) -> str:
    """A sentence on the number of points at which the stopping rule `until` held at the end; empty without such a rule."""
    if not swept.until:
        return ""
    open_points = swept.met.count(False)
    if not open_points:
        return f"{swept.until} holds at every point."
    return (
        f"{swept.until} holds at {len(swept.met) - open_points} of {counted(len(swept.met), 'point')};"
        " the others have as many replicates as they may, or as differ."
    )


def table_lines(swept: Swept, most: int | None = TERMINAL_ROWS, width: int | None = None) -> list[str]:
    """Headings, units, and a line for each point and policy: parameters, policy, number of replicates, and each metric.

    A metric is a mean ± half its 95 % interval. At the end a line counts the rows beyond `most` (None = all), and one
    explains ``*``, an oracle. Columns beyond `width` letters follow below, and long names are cut; None = neither.
    """
    names = cut_names(swept.policies, name_limit(width))
    head, units, *rows = _rows(swept, names)
    shown = rows if most is None else rows[:most]
    place = len(swept.parameters)
    lines = [*fitted([head, units, *shown], width, left=[place], keys=place + 1), *full_names(names)]
    if len(shown) < len(rows):
        lines.append(f"... and {counted(len(rows) - len(shown), 'more row')}")
    if any(swept.is_oracle(i) for i in range(len(swept.policies))):
        lines.append(ORACLE_NOTE)
    return lines


def _rows(swept: Swept, names: Mapping[str, str]) -> list[list[str]]:
    """Headings, units, and a row of texts for each point and policy; `names`: policy -> its name in the table."""
    figures = [figure_of(metric) for metric in swept.metrics]
    rows = [
        [*swept.parameters, "policy", "runs", *(one.heading for one in figures)],
        [*("" for _ in swept.parameters), "", "", *(one.unit for one in figures)],
    ]
    for p, point in enumerate(swept.points):
        for i, policy in enumerate(swept.policies):
            cells = [mean_text(swept.interval(p, i, m), f.scale) for m, f in zip(swept.metrics, figures, strict=True)]
            name = names[policy] + ("*" if swept.is_oracle(i) else "")
            rows.append([*map(value_text, point), name, str(len(swept.runs[p][i])), *cells])
    return rows


def _metric(swept: Swept, metric: str) -> Iterable[str]:
    """The section on one metric as pieces of HTML: charts against each parameter, and heat maps of a grid."""
    badges = {name: ORACLE_BADGE for i, name in enumerate(swept.policies) if swept.is_oracle(i)}
    several = any(len(runs) > 1 for point in swept.runs for runs in point)
    drawn = " Bands and whiskers are 95 % t-intervals of the mean over replicates." if several else ""
    yield f'<h2>{escape(figure_of(metric).heading)}</h2><p class="hint">Means over replicates.{drawn}</p>'
    yield f'{legend(swept.policies, badges)}<div class="charts">'
    for parameter in swept.parameters:
        yield framed(f"against {parameter}", against(swept, parameter, metric), _caption(swept, parameter))
    numeric = [name for name in swept.parameters if swept.is_numeric(name) and len(swept.values(name)) > 1]
    for across, upward in combinations(numeric[:PAIRED] if swept.grid else (), 2):
        for name, svg in over_two(swept, across, upward, metric).items():
            yield framed(name, svg, f"{title_of(metric)}, over {across} and {upward}.")
    yield "</div>"


def _caption(swept: Swept, parameter: str) -> str:
    """The caption of a chart against one parameter: what happens to the other parameters."""
    others = [name for name in swept.parameters if name != parameter]
    if others and not swept.grid:
        return "A dot a point; the other parameters vary from dot to dot."
    return f"Averaged over {_listed(others)}." if others else ""


def _figures(swept: Swept) -> Iterable[str]:
    """The section with the table of figures, `PAGE_ROWS` rows at most, as pieces of HTML."""
    head, units, *rows = _rows(swept, cut_names(swept.policies, None))
    said = "Mean over replicates, ± half a 95 % t-interval."
    if len(rows) > PAGE_ROWS:
        said += f" The first {PAGE_ROWS} of {len(rows)} rows."
    yield f"<h2>Figures</h2><p class='hint'>{said} {escape(until_sentence(swept))}</p>"
    yield table(zip(head, units, strict=True), ([*map(escape, row)] for row in rows[:PAGE_ROWS]))


def _taken(swept: Swept, parameter: str) -> str:
    """The values of a parameter as text; of a sampled number, the ends of the range."""
    values = swept.values(parameter)
    if not swept.grid and swept.is_numeric(parameter):
        return f"{value_text(values[0])} to {value_text(values[-1])}"
    return ", ".join(map(value_text, values))


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
