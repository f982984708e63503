"""Charts of engine runs."""

import numpy as np

from evenstep.report.engine_plots import scale
from evenstep.report.plots import means, stretches


def test_every_stretch_is_a_mean_and_none_is_lost():
    values = np.arange(1000.0)
    edges = stretches(values.size)
    assert edges[0] == 0 and edges[-1] == 1000
    assert np.isclose(np.sum(means(values, edges) * np.diff(edges)), values.sum())


def test_far_values_are_drawn_by_powers_of_ten():
    assert scale([1.0, 100.0]).log and not scale([1.0, 2.0]).log
    flat = scale([3.0])
    assert flat.low < 3.0 < flat.high
