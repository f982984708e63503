"""Draws ``images/idle-share.svg`` and prints its figures. Run by ``make pictures``."""

from __future__ import annotations

from pathlib import Path

import evenstep
from evenstep.experiments.settings import USUAL

HERE = Path(__file__).parent
WIDTH, LEFT, ROW = 760, 330, 34


def svg(rows: list[tuple[str, float, bool]]) -> str:
    """Bars of idle share in per cent, one a policy: (policy, per cent, whether its predictor is an oracle)."""
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
        label = name + (" *" if oracle else "")
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 20}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{y + 4}" width="{value * scale:.1f}" height="{ROW - 10}" rx="2" fill="{colour}"/>',
            f'<text x="{LEFT + value * scale + 8:.1f}" y="{y + 20}">{value:.2f} %</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    comparison = evenstep.compare("sample:azure-conv", USUAL)
    rows = [(p.policy, 100 * p.mean("idle_share"), p.oracle) for p in comparison.policies]
    for name, value, oracle in rows:
        print(f"{value:6.2f} %  {name}{'  (oracle)' if oracle else ''}")
    path = HERE / "images" / "idle-share.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(svg(rows), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
