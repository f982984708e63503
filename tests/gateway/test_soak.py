"""A short soak: a few thousand requests, engines that fail in every way, clients that leave at every stage."""

from __future__ import annotations

import pytest
from benchmarks.soak_gateway import CLEAN, soak

REQUESTS = 3000


@pytest.mark.slow
def test_every_request_ends_once_and_nothing_is_left_behind():
    found = soak(REQUESTS)
    assert found.broken(memory=False) == []  # so short a run says nothing of memory
    assert sum(found.ended.values()) == REQUESTS
    assert found.ended["cancelled"] > 0.02 * REQUESTS
    assert found.recomputed > 0 and found.retried > 0
    assert set(found.ended) <= {"whole", "cancelled", *CLEAN}
    assert found.decisions > 50
