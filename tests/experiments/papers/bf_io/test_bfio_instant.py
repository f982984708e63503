"""BF-IO's open question on instant dispatch at its reduced size."""

from __future__ import annotations

from tests.experiments.papers.quick import ours, quick


def test_every_depth_is_run_and_the_pool_is_the_reference():
    found = quick("bfio-instant", seeds=1)
    gain = "imbalance of FCFS over it"
    assert ours(found, "BF-IO (H = 0), pool", gain) > ours(found, "BF-IO (H = 0), 2 B", gain)
    assert set(found.findings.data["depth"]) == {"pool", "0 B", "2 B"}
