"""A short soak (`make soak` runs 100,000): engines that fail in every way, clients that leave at every stage."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks import soak_answers, soak_promises
from benchmarks.soak_gateway import CLEAN, soak
from tests.gateway.promises.fleet import POLICY
from tests.gateway.promises.fleet import compiled as compile_kernels

from evenstep import compiled

#: Memory counts in full from here on: a gateway remembers the latest outputs of each of the soak's 300 prompts.
REQUESTS = 10_000


@pytest.mark.slow
def test_every_request_ends_once_and_nothing_is_left_behind():
    found = soak(REQUESTS)
    assert found.broken() == []
    assert sum(found.ended.values()) == REQUESTS
    assert found.ended["cancelled"] > 0.02 * REQUESTS
    assert found.recomputed > 0 and found.retried > 0
    assert set(found.ended) <= {"whole", "cancelled", *CLEAN}
    assert found.decisions > REQUESTS // 20  # a round decides for all that wait: the slower the machine, the fewer rounds


@pytest.mark.slow
@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled here")
@pytest.mark.parametrize("shape", sorted(soak_answers.SHAPES))
def test_each_of_600_clients_gets_the_answers_to_its_own_requests_and_no_check_fails(shape):
    found = soak_answers.soak(15_000, shape=shape, checked=True)
    assert found.broken() == []
    assert found.right == found.requests == 15_000


@pytest.mark.slow
def test_no_fault_ends_silently_or_doubles_text_and_none_is_retried_more_often_than_allowed():
    """Engines that hand back for ever, answer from the start, come back with another model, and count nothing."""
    compile_kernels()
    found = asyncio.run(soak_promises.soak(300, seed=1, policy=POLICY))
    assert found.broken == []
    assert found.most_asked == found.bound
    assert set(soak_promises.FAULTS) | {"answered from the start"} == set(found.faults)
    assert {"complete", "error", "refused", "left"} == set(found.ended)
