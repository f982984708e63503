"""BF-IO Fig. 6 at its reduced size."""

from __future__ import annotations

import numpy as np
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.bf_io import _bf_io as bf


def test_loads_of_every_worker_are_in_the_data_and_bands_nest():
    found = quick("bfio-fig6")
    data = found.findings.data
    assert set(data["case"]) == set(bf.POLICIES)
    assert set(np.unique(data["worker"])) == set(range(4))
    for policy in bf.POLICIES:
        assert ours(found, policy, "lowest load") < ours(found, policy, "highest load")
