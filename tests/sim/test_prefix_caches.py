"""Prefix caches of a run: what counts as cached, and whose block it is."""

from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.request import PrefixBlocks, Trace
from evenstep.sim.cluster.prefix_caches import PrefixCaches, block_keys
from evenstep.sim.cluster.simulation import Cluster


def trace_of(*rows, scope="global", session=None):
    """Requests of (prompt tokens, block ids), four tokens a block."""
    blocks = PrefixBlocks(
        np.array([b for _, ids in rows for b in ids], np.int64),
        np.cumsum([0, *(len(ids) for _, ids in rows)]),
        4,
        scope,
    )
    prompt = np.array([p for p, _ in rows], np.int64)
    given = None if session is None else np.array(session, np.int64)
    return Trace(prompt, np.ones_like(prompt), prefix_blocks=blocks, session=given)


def test_whole_blocks_count_and_no_more_than_the_prompt():
    caches = PrefixCaches(trace_of((9, [1, 2, 3]), (9, [1, 2, 3]), (8, [1, 5])), Cluster(2, prefix_cache_blocks=9))
    caches.sent(0, 1)
    assert caches.cached(np.array([1, 2])).tolist() == [[0, 9], [0, 4]]
    caches.sent(1, 1)
    caches.sent(2, 1)
    assert caches.counted() == {"prefix_prompt_tokens": 26, "prefix_hit_tokens": 13}
    caches.lost(1)
    assert caches.cached(np.array([1])).tolist() == [[0, 0]]


def test_ids_of_a_session_are_its_own():
    trace = trace_of((4, [1]), (4, [1]), (4, [1]), (4, [1]), scope="session", session=[0, 0, 1, -1])
    keys = block_keys(trace).tolist()
    assert keys[0] == keys[1] and len(set(keys)) == 3
    assert len(set(block_keys(trace_of((4, [1]), (4, [1]), scope="session")).tolist())) == 2


def test_an_id_that_follows_several_others_stands_for_as_many_prefixes():
    trace = trace_of((12, [1, 2, 3]), (12, [4, 2, 3]), (8, [1, 2]), (8, [2, 2]))
    keys = block_keys(trace).tolist()
    assert keys[0:3] == [0, 1, 2] and keys[3:6] == [3, 4, 5] and keys[6:8] == [0, 1] and keys[8:] == [6, 7]
    caches = PrefixCaches(trace, Cluster(1, prefix_cache_blocks=9))
    caches.sent(0, 0)
    assert caches.cached(np.array([1, 2, 3])).tolist() == [[0], [8], [0]]


def test_ids_that_stand_for_their_prefix_are_kept():
    assert block_keys(trace_of((9, [7, 2, 3]), (4, [7]), (8, [7, 5]))).tolist() == [7, 2, 3, 7, 7, 5]


def test_a_trace_without_blocks_is_refused():
    with pytest.raises(InputError, match="prefix_blocks is 'absent'|prefix_blocks is absent"):
        PrefixCaches(Trace(np.array([1]), np.array([1])), Cluster(1, prefix_cache_blocks=4))
