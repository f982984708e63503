"""The picture of one trace: arrivals over time, lengths, gaps or think times; as HTML, PNG or SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from evenstep import __version__
from evenstep.errors import InputError
from evenstep.measure.output_file import replacing
from evenstep.report import html
from evenstep.report.figures import labelled, picture
from evenstep.report.findings_files import table_of
from evenstep.request import F8, Trace
from evenstep.workload.readers.servegen_clients import WINDOW_S, load

_INK, _BAND = "#1f4e79", "#c55a11"
_BINS = 60


def save_trace(trace: Trace, found: dict[str, Any], place: Path) -> None:
    """Draw a request trace: rate of arrivals, lengths of prompts and outputs, and gaps between arrivals or think times.

    Args:
        trace: at least one request. Panels that its columns give no data for are left out.
        found: its statistics (`workload.statistics.describe`): ``name`` is the title; an HTML page shows every statistic.
        place: file to write, replaced whole; its suffix chooses the kind.

    Raises:
        InputError: another suffix than .html, .png or .svg, or a file that cannot be written.
    """
    panels: list[tuple[str, str, Callable[[Any], None]]] = []
    if trace.arrival_s is not None and trace.arrival_s[-1] > 0:
        times = trace.arrival_s
        panels.append(("Arrivals", "seconds", lambda axes: _draw_rate(axes, times)))
    panels.append(("Prompt lengths", "tokens", lambda axes: _draw_tokens(axes, trace.prompt_tokens)))
    panels.append(("Output lengths", "tokens", lambda axes: _draw_tokens(axes, trace.output_tokens)))
    if trace.after is not None and bool((trace.after >= 0).any()):
        think = trace.column("think_s")[trace.after >= 0]
        panels.append(("Think times", "seconds", lambda axes: _draw_tail(axes, think)))
    elif trace.arrival_s is not None and len(trace) > 2:
        gaps = np.diff(trace.arrival_s)
        panels.append(("Gaps between arrivals", "seconds", lambda axes: _draw_tail(axes, gaps)))
    _save(panels, found, place)


def save_clients(path: Path, found: dict[str, Any], place: Path) -> None:
    """Draw the summed rate of all clients of a ServeGen tar over time, and the share of requests of the busiest N clients.

    `found` has its statistics (`workload.statistics.describe_clients`): ``name`` is the title, and an HTML page shows all
    statistics. `place` is the file to write, replaced whole; its suffix chooses the kind.

    Raises:
        InputError: another suffix than .html, .png or .svg, a file that cannot be written, or a tar that cannot be read.
    """
    clients = load(path)
    start = np.unique(np.concatenate([c.start_s for c in clients]))
    total = np.zeros(start.size)
    for client in clients:
        np.add.at(total, np.searchsorted(start, client.start_s), client.rate)
    each = np.sort([float(c.rate.sum()) for c in clients])[::-1]

    def draw_total(axes: Any) -> None:
        axes.step((start + WINDOW_S / 2) / 3600, total, where="mid", color=_INK, linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("requests/s")

    def draw_share(axes: Any) -> None:
        axes.plot(np.arange(1, each.size + 1), np.cumsum(each) / each.sum(), color=_INK)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("share of requests")

    _save([("Rate of all clients", "hours", draw_total), ("Busiest clients", "clients", draw_share)], found, place)


def _draw_rate(axes: Any, times: F8) -> None:
    counts, edges = np.histogram(times, bins=min(_BINS * 2, max(int(times.size / 10), 1)))
    rate = counts / np.diff(edges)
    axes.stairs(rate, edges, fill=True, color=_INK, alpha=0.35)
    axes.stairs(rate, edges, color=_INK, linewidth=1)
    axes.axhline(times.size / float(times[-1]), color=_BAND, linewidth=1, linestyle="--")
    axes.set_ylabel("requests/s (dashed: mean)")


def _draw_tokens(axes: Any, tokens: Any) -> None:
    low, high = float(tokens.min()), float(tokens.max())
    edges = np.unique(np.rint(np.geomspace(low, high + 1, _BINS + 1))) - 0.5
    counts, edges = np.histogram(tokens, bins=edges)
    axes.stairs(counts / tokens.size, edges, fill=True, color=_INK, alpha=0.35)
    axes.stairs(counts / tokens.size, edges, color=_INK, linewidth=1)
    axes.axvline(float(np.median(tokens)), color=_BAND, linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.set_ylabel("share of requests (dashed: median)")


def _draw_tail(axes: Any, values: F8) -> None:
    ordered = np.sort(values)
    kept = ordered > 0
    share = 1 - np.arange(ordered.size) / ordered.size
    if not bool(kept.any()):
        axes.text(0.5, 0.5, "all are 0", ha="center", transform=axes.transAxes)
        return
    axes.plot(ordered[kept], share[kept], color=_INK)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("share longer than this")


def _save(panels: Sequence[tuple[str, str, Callable[[Any], None]]], found: dict[str, Any], place: Path) -> None:
    """Draw panels (title, unit of x, function that draws on axes) and write them to `place`; errors are on the suffix."""
    kind = place.suffix.lower().removeprefix(".")
    if kind not in {"html", "png", "svg"}:
        raise InputError("--plot", "FILE", str(place), "a name ending in .html, .png or .svg")
    across = min(len(panels), 2)
    down = -(-len(panels) // across)

    def draw_all(figure: Any) -> None:
        name = str(found["name"]).encode(errors="replace").decode()  # a file's name may be no UTF-8
        figure.suptitle(name, parse_math=False)
        for number, (title, unit, draw) in enumerate(panels, 1):
            axes: Any = figure.add_subplot(down, across, number)
            draw(axes)
            labelled(axes, unit, title=title)

    size = 5.2 * across, 3.1 * down
    drawn = picture(draw_all, "svg" if kind == "html" else kind, size, 140, **{"axes.titlesize": "large"})
    with replacing(place) as out:
        out.write(_page(drawn.decode(), found).encode(errors="replace") if kind == "html" else drawn)


def _page(picture: str, found: dict[str, Any]) -> str:
    """The HTML page of a picture, text that contains an ``<svg``, with the statistics and notes in `found`."""
    notes = "".join(f"<li>{escape(str(note))}</li>" for note in found["notes"])
    name = str(found["name"])
    body = f"""<h1>{escape(name)}</h1>
{picture[picture.index("<svg") :]}
<h2>Figures</h2>{table_of(["", ""], _flat(found))}
<h2>Notes</h2><ul>{notes or "<li>none</li>"}</ul>
<footer>evenstep {__version__}, trace inspect</footer>"""
    return html.document(f"{name}: trace", [body])


def _flat(found: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Statistics as (name, value) rows of text, those of nested dicts with the names joined; notes and None are left out."""
    rows: list[tuple[str, str]] = []
    for key, value in found.items():
        if key == "notes" or value is None:
            continue
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key} ")
        else:
            rows.append((f"{prefix}{key}", f"{value:.6g}" if isinstance(value, float) else str(value)))
    return rows
