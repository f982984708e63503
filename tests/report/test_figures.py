"""Figures."""

from __future__ import annotations

import numpy as np

from evenstep.measure.comparison import Interval
from evenstep.report import figures


def draw(figure):
    axes = figure.add_subplot(1, 2, 1)
    figures.bars(axes, ["a", "b"], [Interval(1.0, 0.5, 1.5), Interval(2.0, 1.9, 2.1)], [1.2, None])
    other = figure.add_subplot(1, 2, 2)
    figures.band_line(other, [1, 2], [Interval(1.0, None, None), Interval(2.0, None, None)], "x", "#000000")
    figures.worker_lines(other, np.arange(1000.0), np.ones((1000, 3)), points=10)


def test_the_same_drawing_gives_the_same_bytes():
    for kind, head in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        one, two = (figures.picture(draw, kind, (4, 3)) for _ in range(2))
        assert one == two
        assert one.startswith(head)
