"""Draws ``images/idle-share.svg`` and ``images/live.svg`` and prints their figures. Run by ``make pictures``, on a
machine that does nothing else, since the second one is measured."""

from __future__ import annotations

from pathlib import Path

import evenstep
from evenstep.experiments.settings import USUAL
from evenstep.load.demo import Shown, replayed, run_demo
from evenstep.load.demo_page import cells, head
from evenstep.load.demo_settings import DemoSettings

HERE = Path(__file__).parent
WIDTH, LEFT, ROW = 760, 330, 34


def svg(rows: list[tuple[str, float, bool]]) -> str:
    """Bars of barrier time in per cent, one a policy: (policy, per cent, whether its predictor is an oracle)."""
    most = max(value for _, value, _ in rows)
    scale = (WIDTH - LEFT - 90) / most
    height = ROW * len(rows) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="14">',
        "<style>text{fill:#1d2126}@media(prefers-color-scheme:dark){text{fill:#e6e8ea}}</style>",
    ]
    for i, (name, value, oracle) in enumerate(rows):
        y = 10 + ROW * i
        colour = "#c28a00" if oracle else "#0072b2"
        label = name.removesuffix(",predictor=oracle") + (" *" if oracle else "")
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 20}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{y + 4}" width="{value * scale:.1f}" height="{ROW - 10}" rx="2" fill="{colour}"/>',
            f'<text x="{LEFT + value * scale + 8:.1f}" y="{y + 20}">{value:.2f} %</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def live_svg(rows: list[Shown]) -> str:
    """Tokens a second with full slots, one bar a policy, its barrier time beside it."""
    most = max(row.tokens_per_s for row in rows)
    left, scale = 130, 360 / most
    height = ROW * len(rows) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="14">',
        "<style>text{fill:#1d2126}@media(prefers-color-scheme:dark){text{fill:#e6e8ea}}</style>",
    ]
    for i, row in enumerate(rows):
        y, colour, length = 10 + ROW * i, "#8a9099" if i == 0 else "#0072b2", row.tokens_per_s * scale
        said = f"{row.tokens_per_s:,.0f} tokens/s, {100 * row.idle_engines:.1f} % of time lost"
        parts += [
            f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{row.name}</text>',
            f'<rect x="{left}" y="{y + 4}" width="{length:.1f}" height="{ROW - 10}" rx="2" fill="{colour}"/>',
            f'<text x="{left + length + 8:.1f}" y="{y + 20}">{said}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def live() -> None:
    """The demonstration, drawn."""
    settings = DemoSettings(policies=["jsq", "best"])
    trace = replayed(evenstep.read_trace(settings.source), settings)
    rows = list(run_demo(settings, trace))
    print(" | ".join(head()[0].split()))
    for row in rows:
        print(row.name, *cells(row, rows[0]))
    (HERE / "images" / "live.svg").write_text(live_svg(rows), encoding="utf-8")


def main() -> None:
    live()
    comparison = evenstep.compare("sample:azure-conv", USUAL)
    rows = [(p.policy, 100 * p.mean("idle_time_share"), p.oracle) for p in comparison.policies]
    for name, value, oracle in rows:
        print(f"{value:6.2f} %  {name}{'  (oracle)' if oracle else ''}")
    path = HERE / "images" / "idle-share.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(svg(rows), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
