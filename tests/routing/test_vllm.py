"""vLLM's score by hand, today's and the older one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import assert_always_to_the_least, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.vllm import VLLM


def test_today_a_waiting_request_counts_like_a_running_one_while_memory_abounds():
    view = moment([0, 0], [4, 4], [1], running=[4, 1], queued=[0, 2], memory=[0])
    assert routed(VLLM(), view) == [1]
    assert routed(VLLM(score="waiting-4"), view) == [0]  # 4 against 4 * 2 + 1


@pytest.mark.parametrize(("kv_free", "worker"), [(100, 1), (2, 0)])
def test_a_queue_on_an_engine_short_of_kv_memory_costs_up_to_three_more_a_request(kv_free, worker):
    """Worker 1 uses 48 of 150 tokens, then 48 of 52: 1 waits, so 4 running elsewhere are more than 3, and less than 5.5."""
    view = moment(
        [48, 48],
        [4, 4],
        [1],
        running=[4, 2],
        queued=[0, 1],
        queued_load=[0, 2],
        kv_free=[100, kv_free],
        memory=[0],
    )
    assert routed(VLLM(), view) == [worker]


def test_memory_does_not_count_where_nothing_waits():
    view = moment([98, 2], [4, 4], [1], running=[1, 2], kv_free=[2, 98], memory=[0])
    assert routed(VLLM(), view) == [0]


def test_a_sent_request_waits_until_the_next_decision():
    """Older score: 0 against 2; after one request 4 against 2, then 4 against 6."""
    view = moment([0, 0], [9, 9], [1, 1, 1], running=[0, 2], memory=[0])
    assert routed(VLLM(score="waiting-4"), view) == [0, 1, 0]


def test_ties_go_round_and_the_next_search_starts_where_memory_says():
    view = moment([0] * 3, [9] * 3, [1, 1], running=[1, 1, 1], memory=[2])
    assert routed(VLLM(), view) == [2, 0]
    assert VLLM().route(view).memory.tolist() == [1]
    assert routed(VLLM(score="waiting-4"), moment([0] * 3, [9] * 3, [1], memory=[0])) == [0]


@given(routing_views(memory=1))
def test_the_oldest_that_fit_are_admitted_into_every_slot(view):
    for score in ("current", "waiting-4"):
        routed(VLLM(score=score), view)


@given(routing_views(memory=1, kv_limited=False))
def test_without_a_memory_limit_today_s_score_only_counts(view):
    counts = view.running + view.queued
    assert_always_to_the_least(routed(VLLM(), view), view, counts, np.ones(view.waiting_id.size))
