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
        found.check(set())
    found.forget(1)
    found.check(set())
