"""A small drawing board for inline SVG charts: scales, axes, lines, areas, bars. The style of the page sets the colours."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape

import numpy as np

from evenstep.report.numbers import ticks
from evenstep.request import F8

#: Policies with their own colour in the style sheet; further ones also differ by dashes.
COLOURS = 8
#: Most policies that colours and dashes tell apart; of more, the first `FEW` have colours, and the others are grey (`REST`).
MANY, FEW, REST = 32, 8, -1
#: The style sheet's colours in light mode.
LIGHT = ("#4b5563", "#0072b2", "#d55e00", "#009e73", "#b0518f", "#c28a00", "#3a9fd6", "#7a5cc7")
#: Grey, in which policies of `REST` are drawn.
GREY = "#c4c9ce"
#: Colours of the policies most often compared, routing's and scheduling's.
_USUAL = {
    "fcfs": 0,
    "jsq": 1,
    "least-load": 2,
    "br-0": 3,
    "bf-io": 4,
    "best": 5,
    "round-robin": 6,
    "power-of-d": 7,
    "vllm": 0,
    "sarathi": 1,
    "orca": 2,
    "srpt": 3,
    "mlfq": 4,
    "sjf": 6,
    "least-attained": 7,
}
#: Names next to dots: most characters, and the approximate width of one and height of a line.
_LONGEST_NAME, _CHARACTER, _LINE = 30, 6.2, 12


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` to positions along one axis of a `Board`; with `log` both are above 0."""

    low: float
    high: float
    log: bool = False

    def share(self, values: F8) -> F8:
        """float64[N], positions of the values on the scale: 0 at `low`, 1 at `high`; values outside are clipped."""
        if self.log:
            clipped = np.clip(values, self.low, self.high)
            return np.log(clipped / self.low) / math.log(self.high / self.low)
        return (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round values inside the scale, ascending: 1, 2 or 5 times powers of ten apart.

        On a logarithmic scale they are powers of ten, with values between them if fewer than three powers lie inside.
        """
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / (count + 1)))
            tens = [10.0**power for power in range(first, last + 1, every)]
            return tens if len(tens) > 2 else self._between_tens(first - 1, last, tens)
        step = round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _between_tens(self, first: int, last: int, tens: list[float]) -> list[float]:
        """1, 2 and 5 times powers of ten inside the scale; values as on a linear scale if these are too few."""
        fine = [m * 10.0**power for power in range(first, last + 1) for m in (1, 2, 5)]
        found = [value for value in fine if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
        if len(found) > 2:
            return found
        narrow = [value for value in Scale(self.low, self.high).ticks() if value > 0]
        return narrow if len(narrow) > len(found) else found or tens


def series_of(names: Iterable[str]) -> dict[str, int]:
    """A number >= 0 for each name of a policy, which sets its colour; all reports on the same policies agree.

    Well-known policies prefer set numbers in 0..7, and another name gets one by its hash. If that is taken by another of
    these names, the next free number is used. From the ninth policy on, numbers from 8 repeat the colours with dashes. The
    dict has the order of the names, which changes no number. Of more than `MANY` names, all but the first `FEW` get `REST`.
    """
    return dict(_series_of(tuple(dict.fromkeys(names))))


@lru_cache(4)  # each row of a table asks
def _series_of(asked: tuple[str, ...]) -> dict[str, int]:
    """The dict of `series_of`, which is not to be changed, for names without a repetition."""
    if len(asked) > MANY:
        return _series_of(asked[:FEW]) | dict.fromkeys(asked[FEW:], REST)
    dashed = range(0, COLOURS * (1 + len(asked) // COLOURS), COLOURS)
    known = [name for name in _USUAL if name in asked]
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in [*known, *sorted(set(asked) - set(known))]:
        first = _USUAL.get(name, zlib.crc32(name.encode()) % COLOURS)
        numbers = (dash + (first + step) % COLOURS for dash in dashed for step in range(COLOURS))
        found[name] = next(number for number in numbers if number not in taken)
        taken.add(found[name])
    return {name: found[name] for name in asked}


def round_step(size: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least `size`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= size * (1 - 1e-9))


def from_zero(values: Sequence[F8], room: float = 1.05) -> Scale:
    """A linear scale from 0 to `room` times the largest value; 0 to 1 if no value is above 0. nan is ignored."""
    tops = [float(np.nanmax(v)) for v in values if v.size and np.isfinite(v).any()]
    top = max(tops, default=0.0)
    return Scale(0.0, top * room if top > 0 else 1.0)


@dataclass(slots=True)
class Board:
    """One chart under construction: methods add SVG elements, later ones above earlier ones, and `svg` returns the whole."""

    x: Scale  # scale of the plotting area; values outside are drawn at its edge
    y: Scale  # likewise
    width: int = 560  # of the whole chart, in SVG user units, as are the margins
    height: int = 300  # of the whole chart
    label: str = ""  # a description of the chart, for screen readers
    left: int = 52  # this and the next three: margins around the plotting area
    bottom: int = 38
    top: int = 12
    right: int = 12
    parts: list[str] = field(default_factory=list[str])  # the SVG elements drawn so far

    def axes(self, x_title: str, y_title: str, x_ticks: int = 6, y_ticks: int = 5) -> None:
        """Draw the x axis, both titles, about `x_ticks` numbers along x, and `y_ticks` along y with grid lines; 0 = none.

        Call it first: later elements cover it.
        """
        x0, x1, y0, y1 = self.left, self.width - self.right, self.height - self.bottom, self.top
        y_values, x_values = (scale.ticks(n) if n else [] for scale, n in ((self.y, y_ticks), (self.x, x_ticks)))
        for value, text in zip(y_values, ticks(y_values), strict=True):
            y = self._y(np.array([value]))[0]
            self.parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}"/>')
            self.parts.append(f'<text x="{x0 - 6}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')
        for value, text in zip(x_values, ticks(x_values), strict=True):
            x = self._x(np.array([value]))[0]
            self.parts.append(f'<path class="tick" d="M{x:.1f} {y0}v4"/>')
            self.parts.append(f'<text x="{x:.1f}" y="{y0 + 16}" text-anchor="middle">{text}</text>')
        centre, middle = (x0 + x1) / 2, (y0 + y1) / 2
        self.parts.append(f'<path class="axis" d="M{x0} {y0}H{x1}"/>')
        self.parts.append(
            f'<text class="title" x="{centre:.0f}" y="{self.height - 5}" text-anchor="middle">{escape(x_title)}</text>'
            f'<text class="title" transform="translate(11 {middle:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(y_title)}</text>"
        )

    def line(self, x: F8, y: F8, series: int, kind: str = "line") -> None:
        """Draw a line through points, float64[N] on the scales, in the order to be joined; broken where `y` is not finite.

        `series` is the number of the policy (`series_of`); `kind` is the CSS class of the line: ``line``, ``thin`` or
        ``grid``.
        """
        steps: list[str] = []
        pen_down = False
        for px, py, known in zip(self._x(x), self._y(y), np.isfinite(y), strict=True):
            if known:
                steps.append(f"{'L' if pen_down else 'M'}{px:.1f} {py:.1f}")
            pen_down = bool(known)
        if steps:
            self.parts.append(f'<path class="{kind} {series_class(series)}" d="{"".join(steps)}"/>')

    def area(self, x: F8, low: F8, high: F8, series: int) -> None:
        """Fill the area between two lines over `x`: float64[N] values on the scales, no nan. `series` sets the colour."""
        if x.size == 0:
            return
        px = self._x(x)
        forth = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(px, self._y(high), strict=True))
        back = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(px[::-1], self._y(low)[::-1], strict=True))
        self.parts.append(f'<path class="area {series_class(series)}" d="M{forth}L{back}Z"/>')

    def bar(self, place: float, width: float, value: float, series: int, title: str) -> None:
        """Draw one upright bar from the bottom of the plotting area up to `value` on the y scale, with the tooltip `title`.

        `place` and `width` are its left end and its width as shares of the area's width; `series` sets the colour.
        """
        inner = self.width - self.left - self.right
        floor, top = self.height - self.bottom, self._y(np.array([value]))[0]
        self.parts.append(
            f'<rect class="bar {series_class(series)}" x="{self.left + place * inner:.1f}" y="{top:.1f}"'
            f' width="{width * inner:.1f}" height="{max(0.0, floor - top):.1f}"><title>{escape(title)}</title></rect>'
        )

    def dot(self, x: float, y: float, series: int, low: float, high: float, title: str) -> None:
        """Draw a dot at values on the scales, with a tooltip, and a whisker from `low` to `high` unless one is nan."""
        px, py = self._x(np.array([x]))[0], self._y(np.array([y]))[0]
        if np.isfinite(low) and np.isfinite(high):
            bottom, top = self._y(np.array([low, high]))
            self.parts.append(f'<path class="line {series_class(series)}" d="M{px:.1f} {bottom:.1f}V{top:.1f}"/>')
        self.parts.append(
            f'<circle class="bar {series_class(series)}" cx="{px:.1f}" cy="{py:.1f}" r="3.2">'
            f"<title>{escape(title)}</title></circle>"
        )

    def names(self, points: Sequence[tuple[float, float, str]]) -> None:
        """Write names next to dots, at the nearest free side and height, with a line to a dot that is not near.

        `points` has x and y of each dot on the scales, and its name, which is cut to 30 characters. Earlier ones get better
        places; a name without a free place overlaps.
        """
        taken: list[tuple[float, float, float]] = []  # left and right end, height
        shifts = sorted(range(-10 * _LINE, 10 * _LINE + 1, _LINE), key=abs)
        for x, y, name in points:
            text = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            px, py = float(self._x(np.array([x]))[0]), float(self._y(np.array([y]))[0])
            wide = _CHARACTER * len(text)
            places = [(begin, begin + wide, py + shift) for shift in shifts for begin in (px + 7, px - 7 - wide)]
            place = next((one for one in places if self._is_free(one, taken)), places[0])
            taken.append(place)
            side, at = ("start", px + 7) if place[0] > px else ("end", px - 7)
            if abs(place[2] - py) > _LINE:
                self.parts.append(f'<path class="grid" d="M{px:.1f} {py:.1f}L{at:.1f} {place[2]:.1f}"/>')
            self.parts.append(f'<text x="{at:.1f}" y="{place[2] + 3.5:.1f}" text-anchor="{side}">{escape(text)}</text>')

    def _is_free(self, place: tuple[float, float, float], taken: Sequence[tuple[float, float, float]]) -> bool:
        """True if a name with this left end, right end and height is inside the chart and overlaps no `taken` one."""
        begin, end, at = place
        is_inside = self.left <= begin and end <= self.width - self.right and self.top <= at <= self.height - self.bottom
        return is_inside and all(begin > right or end < left or abs(at - y) >= _LINE for left, right, y in taken)

    def cell(self, left: float, bottom: float, width: float, height: float, shade: float, text: str) -> None:
        """Draw a cell of a heat map with the number `text`; `shade` is the strength of its colour, from 0 (faintest) to 1.

        `left`, `bottom`, `width` and `height` are shares of the plotting area, in [0, 1].
        """
        across = self.width - self.left - self.right
        up = self.height - self.bottom - self.top
        x, y = self.left + left * across, self.top + (1 - bottom - height) * up
        self.parts.append(
            f'<rect class="bar c1" fill-opacity="{0.06 + 0.6 * shade:.3f}" x="{x:.1f}" y="{y:.1f}"'
            f' width="{width * across - 1:.1f}" height="{height * up - 1:.1f}"/>'
            f'<text class="title" x="{x + width * across / 2:.1f}" y="{y + height * up / 2 + 4:.1f}"'
            f' text-anchor="middle">{escape(text)}</text>'
        )

    def side_note(self, place: float, text: str) -> None:
        """Write text left of the y axis, centred at the height `place`: a share of the plotting area from below."""
        y = self.top + (1 - place) * (self.height - self.bottom - self.top)
        self.parts.append(f'<text x="{self.left - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>')

    def note(self, place: float, text: str) -> None:
        """Write text below the x axis, centred at `place`: a share of the plotting area's width from the left."""
        x = self.left + place * (self.width - self.left - self.right)
        self.parts.append(
            f'<text x="{x:.1f}" y="{self.height - self.bottom + 16}" text-anchor="middle">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """The chart as text of one ``svg`` element, styled by the style sheet of the page; more may be drawn afterwards."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.label, quote=True)}">'
            f"{''.join(self.parts)}</svg>"
        )

    def _x(self, values: F8) -> F8:
        """float64[N], horizontal positions in SVG user units of values on the x scale."""
        return self.left + self.x.share(values) * (self.width - self.left - self.right)

    def _y(self, values: F8) -> F8:
        """float64[N], vertical positions, from the top, in SVG user units of values on the y scale."""
        inner = self.height - self.bottom - self.top
        return self.top + (1.0 - self.y.share(values)) * inner


def colour_of(series: int) -> str:
    """The colour of a policy in a picture, light mode; `series` is its number in `series_of`."""
    return GREY if series == REST else LIGHT[series % len(LIGHT)]


def series_class(series: int) -> str:
    """CSS classes of a policy's marks: ``c0`` to ``c7``, from number 8 on also ``d1`` to ``d3`` for dashes; ``rest``."""
    if series == REST:
        return "rest"
    dash = f" d{min(series // COLOURS, 3)}" if series >= COLOURS else ""
    return f"c{series % COLOURS}{dash}"
