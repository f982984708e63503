"""BF-IO Fig. 5 at its reduced size."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.bf_io.bfio_fig5 import _draw, _gap
from evenstep.workload.reading import samples
from evenstep.workload.synthetic.laws import Geometric


@pytest.mark.slow
def test_every_bundled_sample_gets_a_fit_and_an_interval():
    found = quick("bfio-fig5")
    gaps = [r for r in found.findings.rows if r.quantity.startswith("largest gap")]
    assert [r.case for r in gaps] == [f"sample:{name}" for name in samples()]
    assert all(r.ours.low <= r.ours.high for r in gaps)


def test_a_workload_file_is_drawn_and_fitted():
    found = quick("bfio-fig5", traces=("examples/workloads/burst.yaml",))
    assert {row.case for row in found.findings.rows} == {"examples/workloads/burst.yaml"}


def test_the_gap_is_small_on_geometric_lengths_and_large_on_equal_ones():
    u = (np.arange(20_000) + 0.5) / 20_000
    assert _gap(Geometric(mean=200.0).quantile(u)) < 0.01
    assert _gap(np.full(100, 50, np.int64)) > 0.3


def test_outputs_of_one_token_are_a_geometric_law_without_a_gap_and_can_be_drawn():
    ones, figure = np.ones(50, np.int64), Figure()
    assert _gap(ones) == 0
    with np.errstate(all="raise"):
        _draw(figure, {"x": ones})
    assert np.isfinite(figure.axes[0].lines[0].get_ydata()).all()
