"""The pool's order, and who may come in."""

from __future__ import annotations

from array import array

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.commands import Reject
from evenstep.dispatch.requests.pool import AdmissionLimits, Pool
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.settings import Settings, TenantLimits


def test_who_comes_back_takes_the_place_of_its_arrival():
    rows = Rows(4)
    pool = Pool(rows)
    taken = []
    for request, since in ((1, 0.0), (2, 1.0), (3, 1.0)):
        row = rows.take(request)
        rows.at.since_s[row] = since
        taken.append(row)
    for row in (taken[2], taken[1], taken[0]):
        pool.add(row)
    assert list(pool) == taken and pool.oldest() == taken[0]
    pool.remove(taken[1])
    assert list(pool) == [taken[0], taken[2]]
    with pytest.raises(RuntimeError, match="not in the pool"):
        pool.remove(taken[1])


def test_a_rate_fills_up_again_and_a_burst_is_bounded():
    door = AdmissionLimits(Settings(tenants={"a": TenantLimits(per_s=0.5, burst=2)}))
    assert [door.refusal("a", 0.0, 0.0) for _ in range(3)] == [None, None, (429, "rate-limit", 2)]
    assert door.refusal("a", 0.0, 2.0) is None
    assert door.refusal("b", 0.0, 2.0) is None


def test_a_full_pool_says_when_to_come_back():
    story = Story(pool_limit=1)
    story.worker("a")
    story.arrives(1)
    for request, wait_s, retry_s in ((2, 3.2, 4), (3, 1e9, 60)):
        story.d.parts.meters.waits.sums = array("d", [wait_s, 1.0])
        assert story.arrives(request) == [Reject(request, 503, "pool-full", retry_s)]
