"""BF-IO Fig. 4 at its reduced size."""

from __future__ import annotations

from tests.experiments.papers.quick import quick


def test_every_window_is_run_with_and_without_discount():
    found = quick("bfio-fig4", seeds=1)
    cases = {row.case for row in found.findings.rows}
    assert cases == {"H = 0", "H = 10", "H = 80", "H = 10, discount 0.9", "H = 80, discount 0.9"}
    assert [claim.holds for claim in found.findings.claims] in (
        [None, None],
        [None, False],
        [False, False],
        [False, None],
    )
