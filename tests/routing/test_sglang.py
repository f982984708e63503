"""SGLang's dispatch by hand, and against the policies it equals when its reports are fresh."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_always_to_the_least, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.sglang import SGLang


def test_total_requests_counts_what_runs_what_was_sent_and_what_it_charges():
    view = moment([9, 9, 9], [4, 4, 4], [1, 1, 1], running=[3, 1, 2], queued=[0, 2, 0])
    assert routed(SGLang(), view) == [2, 0, 1]


def test_total_tokens_charges_the_prompt_at_once():
    view = moment([10, 25], [4, 4], [20, 1, 9], running=[3, 1])
    assert routed(SGLang(score="total-tokens"), view) == [0, 1, 1]


def test_equal_tokens_go_to_the_fewest_requests():
    view = moment([20, 20, 20], [4, 4, 4], [1], running=[3, 1, 2])
    assert routed(SGLang(score="total-tokens"), view) == [1]


@given(routing_views())
def test_with_fresh_reports_total_requests_is_jsq_with_lowest_ties(view):
    assert routed(SGLang(), view) == JSQ(ties="lowest").route(view).worker.tolist()


@given(routing_views())
def test_with_fresh_reports_total_tokens_is_least_load(view):
    worker = routed(SGLang(score="total-tokens"), view)
    assert_always_to_the_least(worker, view, view.load + view.queued_load, view.waiting_load)
