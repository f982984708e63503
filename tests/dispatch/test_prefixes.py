"""What was sent where, by prompt blocks."""

from __future__ import annotations

import numpy as np
import pytest

from evenstep.dispatch.prefixes import Prefixes


def cached(found, *requests):
    return found.cached(np.array(requests), np.full(len(requests), 100)).tolist()


def test_a_prompt_counts_as_cached_where_it_was_sent_until_the_worker_is_lost():
    found = Prefixes(room=8)
    found.resize(2)
    found.add(1, (5, 6))
    assert cached(found, 1, 3) == [[0, 0], [0, 0]]
    assert cached(found, 3) == []  # nothing is known
    found.add(2, (5, 7))
    assert cached(found, 1, 2, 3) == [[0, 0], [0, 0], [0, 0]]
    found.sent(1, 1, 100)
    assert cached(found, 2) == [[0, 50]]
    found.sent(2, 1, 100)
    assert (found.sent_tokens, found.hit_tokens) == (200, 50)
    found.lost(1)
    found.add(4, (5, 7))
    assert cached(found, 4) == [[0, 0]]


def test_nothing_is_kept_of_requests_that_ended():
    found = Prefixes(room=8)
    found.resize(1)
    found.add(1, (5,))
    cached(found, 1)
    with pytest.raises(RuntimeError, match="ended"):
        found.check(set(), set())
    found.forget(1)
    found.check(set(), set())


def test_what_is_sent_and_what_makes_room_for_it_is_seen_by_those_that_wait():
    found = Prefixes(room=3)
    found.resize(2)
    found.is_read = True
    for row, blocks in enumerate([(1, 2, 3), (1, 2, 4), (9,)]):
        found.add(row, blocks)
    found.sent(0, 0, 90)
    assert found.cached(np.array([1, 2]), np.array([90, 10])).tolist() == [[60, 0], [0, 0]]
    found.sent(2, 0, 10)  # block 3 goes
    found.check({0, 1, 2}, {1})
    found.waits_again(0)
    assert found.cached(np.array([0, 1]), np.array([90, 90])).tolist() == [[60, 0], [60, 0]]
    found.check({0, 1, 2}, {0, 1})
    found.lost(0)
    assert found.cached(np.array([0]), np.array([90])).tolist() == [[0, 0]]
