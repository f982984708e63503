"""Figures as SVG and PNG from one drawing function: same data, same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenstep import kernel_cache
from evenstep.errors import InputError
from evenstep.measure.comparison import Interval
from evenstep.measure.output_file import replacing
from evenstep.request import F8

#: Colours in order, distinct for readers with colour vision deficiency.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c510a", "#b2abd2")


def picture(draw: Callable[[Any], None], kind: str, size: tuple[float, float], per_inch: int = 130, **more: Any) -> bytes:
    """Draw one figure with matplotlib, and return the bytes of its file; same data, same bytes.

    It may set environment variables that name a folder for matplotlib's caches (`kernel_cache.lend_to_drawing`).

    Args:
        draw: puts everything on the matplotlib `Figure` that it gets. Top and right spines are hidden afterwards.
        kind: ``svg`` or ``png``.
        size: width and height, inches.
        per_inch: dots per inch of a png.
        more: rcParams of matplotlib by name, which replace those set here.
    """
    kernel_cache.lend_to_drawing()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "evenstep", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 9.5, **more}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        packed = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(packed, format=kind, dpi=per_inch, metadata=metadata)
    return packed.getvalue()


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A chart that a notebook shows as SVG."""

    draw: Callable[[Any], None]  # draws it on the matplotlib axes that it gets
    height: float  # inches; it is 7 inches wide

    def on(self, axes: Any) -> Any:
        """Draw it on matplotlib axes and return these; the picture itself if `axes` is None. InputError: no axes."""
        if axes is None:
            return self
        if not hasattr(axes, "barh"):
            hint = "Of plt.subplots(), give the second part."
            raise InputError("plot", "axes", type(axes).__name__, "axes of matplotlib", hint)
        self.draw(axes)
        return axes

    def save(self, path: str | Path) -> Path:
        """Write the picture and return its path; the suffix, ``.svg`` or ``.png``, tells the kind.

        Raises:
            InputError: another suffix, or a file that cannot be written.
        """
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise InputError("plot", "path", str(path), "a name that ends in .svg or .png")
        with replacing(path) as out:
            out.write(self._drawn(path.suffix[1:]))
        return path

    def _repr_svg_(self) -> str:
        return self._drawn("svg").decode()

    def _drawn(self, kind: str) -> bytes:
        return picture(lambda figure: self.draw(figure.subplots()), kind, (7.0, self.height))


def band_line(axes: Any, x: Sequence[float], y: Sequence[Interval], label: str, colour: str, marker: str = "o") -> None:
    """Draw a line through means on matplotlib axes, and a band of their intervals if all of them have ends."""
    axes.plot(x, [one.value for one in y], marker=marker, markersize=3.5, color=colour, label=label)
    if all(one.low is not None for one in y):
        axes.fill_between(x, [one.low for one in y], [one.high for one in y], color=colour, alpha=0.18, lw=0)


def labelled(axes: Any, x: str = "", y: str = "", title: str = "", *, legend: bool = False, **options: Any) -> None:
    """Put labels, title and a pale grid on matplotlib axes; with `legend` a legend with `options`. "" changes nothing."""
    for text, put in ((x, axes.set_xlabel), (y, axes.set_ylabel), (title, axes.set_title)):
        if text:
            put(text)
    axes.grid(alpha=0.25, linewidth=0.6)
    if legend:
        axes.legend(frameon=False, **options)


def bars(axes: Any, names: Sequence[str], y: Sequence[Interval], paper: Sequence[float | None]) -> None:
    """Draw a bar from 0 for each name on matplotlib axes, intervals if all have ends, and a diamond for a paper's number."""
    place = np.arange(len(names))
    axes.bar(place, [one.value for one in y], width=0.62, color=COLOURS[0], alpha=0.75, label="ours")
    ends = [(one.value - one.low, one.high - one.value) for one in y if one.low is not None and one.high is not None]
    if len(ends) == len(y):
        axes.errorbar(place, [one.value for one in y], np.array(ends).T, fmt="none", color="#222222", capsize=3, lw=1)
    known = [i for i, value in enumerate(paper) if value is not None]
    if known:
        values = [paper[i] for i in known]
        axes.plot(known, values, "D", color=COLOURS[1], markersize=6, label="paper")
    axes.set_xticks(place, names, rotation=25, ha="right")
    axes.set_ylim(bottom=0)


def worker_lines(axes: Any, x: F8, load: F8, points: int = 200) -> None:
    """Draw the KV load of every worker over time or steps `x`, float64[S], in thousands of tokens, on matplotlib axes.

    `load` is float64[S, G], KV tokens. A line has at most `points` points; the first and last row are kept.
    """
    kept = np.unique(np.linspace(0, x.size - 1, min(x.size, points)).astype(np.int64))
    workers = load.shape[1]
    for g in range(workers):
        axes.plot(x[kept], load[kept, g] / 1e3, lw=0.7, color=COLOURS[g % len(COLOURS)], alpha=0.85)
    labelled(axes)
