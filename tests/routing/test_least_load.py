"""Least load by hand, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.least_load import LeastLoad


def test_the_oldest_goes_to_the_fewest_tokens_counting_what_was_sent():
    view = moment([10, 4, 6], [4, 4, 4], [3, 1, 9], queued=[0, 1, 0], queued_load=[0.0, 5.0, 0.0])
    assert routed(LeastLoad(), view) == [2, 1, 2]


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(LeastLoad(), view)
