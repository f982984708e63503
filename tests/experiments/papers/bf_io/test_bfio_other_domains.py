"""BF-IO in other domains at its reduced size, and the work of one job by hand."""

from __future__ import annotations

import numpy as np
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.bf_io.bfio_other_domains import FINEST, LOOK, mesh, tiles


def test_tiles_shrink_panel_by_panel_and_patches_change_at_looks_only():
    work = tiles(50, 3)
    first = work.values[: work.offsets[1]]
    assert first[-3:].tolist() == [6, 3, 1]
    patches = mesh(50, 3)
    for begin, end in zip(patches.offsets[:-1], patches.offsets[1:], strict=True):
        times = patches.values[begin:end] / patches.values[begin]
        assert set(times) <= {4.0**level for level in range(FINEST + 1)}
        changed = np.flatnonzero(np.diff(times)) + 1
        assert (changed % LOOK == 0).all()
    assert patches.values.max() > 100


def test_balance_at_the_start_saves_a_fifth_of_the_idle_tiles():
    found = quick("bfio-other-domains", seeds=3)
    idle = "load imbalance"
    assert ours(found, "tiles, BF-IO (H = 0)", idle) < 0.8 * ours(found, "tiles, FCFS", idle)
    assert ours(found, "mesh, BF-IO (H = 20)", idle) < 1.05 * ours(found, "mesh, FCFS", idle)
