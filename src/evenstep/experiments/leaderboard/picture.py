"""The picture of a leaderboard: bars of the ranking metric by policy, a panel a workload, oracles set apart."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from evenstep.experiments.leaderboard.ranks import Standing, alike, overall, standings
from evenstep.experiments.leaderboard.table import Table, WorkloadLine

WIDTH, LEFT, ROW, HEAD, FOOT, GAP = 960, 300, 19, 46, 34, 64
#: Most live policies shown, by mean rank.
SHOWN = 18
#: A bar longer than `CUT` times the quantile `BUT` is cut and gets a point, so that it does not dwarf the others.
CUT, BUT = 1.15, 0.85
#: The policy that is set in bold.
OURS = "best"
_STYLE = (
    "text{fill:#1d2126}.soft{fill:#5c6670}.live{fill:#0072b2}.ours{fill:#d55e00}.oracle{fill:#c9a227;fill-opacity:.75}"
    ".whisker{stroke:#1d2126;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e8ea}.soft{fill:#a0a8b0}.live{fill:#4ba3d8}.whisker{stroke:#e6e8ea}}"
)
_TITLES = {
    "idle_time_share": ("time lost at the barrier, %", 100.0),
    "idle_share": ("load imbalance, %", 100.0),
    "imbalance_envelope_tokens": ("imbalance, thousand KV tokens", 1e-3),
}


def picture(table: Table) -> str:
    """The picture as the text of an SVG document: a panel for each of `table.picture`, with policies by mean rank.

    It shows the first `SHOWN` live policies, without paper modes and without all but the first of policies that decided
    alike. Then come all oracles. Very long bars are cut, with a pointed end.
    """
    paper = [policy for policy in table.policies if "age_limit=0" in policy]
    twins = [policy for group in alike(table) for policy in group[1:]]
    kept = [one.policy for one in overall(table) if one.policy not in (*paper, *twins)][:SHOWN]
    oracles = [policy for policy in table.policies if any(c.oracle for c in table.cells if c.policy == policy)]
    rows = [*kept, *oracles]
    lines = [line for line in table.workloads if line.name in table.picture]
    height = HEAD + ROW * len(rows) + (10 if oracles else 0) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(', '.join(line.name for line in lines))}: policies by mean rank</title>",
        f"<style>{_STYLE}</style>",
    ]
    places = {policy: HEAD + ROW * i + (10 if policy in oracles else 0) for i, policy in enumerate(rows)}
    for policy, y in places.items():
        weight = ' font-weight="bold"' if _is_ours(policy) else ""
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end"{weight}>{escape(_label(policy))}</text>')
    wide = (WIDTH - LEFT - GAP * len(lines)) / len(lines)
    for number, line in enumerate(lines):
        parts += _panel(table, line, places, LEFT + number * (wide + GAP), wide)
    parts += _legend(height - 12, any(map(_is_ours, rows)), bool(oracles))
    return "\n".join([*parts, "</svg>", ""])


def _panel(table: Table, line: WorkloadLine, places: dict[str, int], left: float, wide: float) -> Iterator[str]:
    """Yield one workload's panel as SVG elements, at x = `left`, `wide` pixels; `places` has each policy's y."""
    title, factor = _TITLES[line.metric]
    found = {one.cell.policy: one for one in standings(table.of(line.name), line.metric)}
    values = {policy: one for policy, one in found.items() if policy in places and one.value is not None}
    sizes = sorted(factor * one.value.value for one in values.values() if one.value is not None)
    most = min(sizes[-1], CUT * sizes[int(BUT * (len(sizes) - 1))]) if sizes else 1.0
    yield f'<text x="{left:.1f}" y="16" font-size="14" font-weight="bold">{escape(line.name)}</text>'
    yield f'<text class="soft" x="{left:.1f}" y="34">{escape(title)}</text>'
    for policy, one in values.items():
        yield from _bar(one, factor, left, places[policy], wide, most or 1.0)
    for policy, y in places.items():
        if policy not in values:
            yield f'<text class="soft" x="{left:.1f}" y="{y + 13}">not run</text>'


def _bar(one: Standing, factor: float, left: float, y: int, wide: float, most: float) -> Iterator[str]:
    """Yield one policy's bar, interval and number as SVG; a value above `most` gets a bar of full width with a point."""
    assert one.value is not None
    kind = "oracle" if one.cell.oracle else "ours" if _is_ours(one.cell.policy) else "live"
    value = factor * one.value.value
    shown = f"{value:.2f}" if value < 10 else f"{value:.1f}"
    length, top, floor = wide / most * value, y + 3, y + ROW - 3
    if value > most:
        end = left + wide
        yield (
            f'<path class="{kind}" d="M{left:.1f} {top}H{end - 6:.1f}L{end:.1f} {y + ROW / 2}L{end - 6:.1f} {floor}'
            f'H{left:.1f}Z"/>'
        )
    else:
        yield f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{length:.1f}" height="{floor - top}" rx="1.5"/>'
        end = left + length
        if one.value.low is not None and one.value.high is not None and one.value.high > one.value.low:
            low, high = (wide / most * factor * edge for edge in (max(one.value.low, 0.0), one.value.high))
            end = left + min(high, wide + 12)
            yield f'<path class="whisker" d="M{left + low:.1f} {y + ROW / 2}H{end:.1f}"/>'
    yield f'<text x="{end + 5:.1f}" y="{y + 13}">{shown}</text>'


def _legend(y: float, ours: bool, oracles: bool) -> Iterator[str]:
    entries = [("live", "can run live")]
    entries += [("ours", OURS)] if ours else []
    entries += [("oracle", "shown true lengths, which no live router has")] if oracles else []
    x = float(LEFT)
    for kind, text in entries:
        yield f'<rect class="{kind}" x="{x:.0f}" y="{y - 10}" width="11" height="11" rx="1.5"/>'
        yield f'<text x="{x + 16:.0f}" y="{y}">{escape(text)}</text>'
        x += 40 + 6.5 * len(text)
    yield f'<text class="soft" x="{LEFT - 8}" y="{y}" text-anchor="end">pointed bars are cut</text>'


def _is_ours(policy: str) -> bool:
    return policy.partition(":")[0] == OURS


def _label(policy: str) -> str:
    """A policy's spec as text, without its predictor, which the colour of its bar tells."""
    name, _, options = policy.partition(":")
    kept = [one for one in options.split(",") if one and not one.startswith("predictor=")]
    return f"{name} {', '.join(kept)}".rstrip()
