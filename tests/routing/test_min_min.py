"""Min-min by hand, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.min_min import MinMin


def test_the_shortest_go_first_each_to_the_lightest_worker():
    assert routed(MinMin(), moment([0, 5], [2, 1], [1, 9, 8, 2])) == [0, -1, 1, 0]


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(MinMin(), view)
    assert_doors_agree(MinMin(length="predicted", age_limit=2), view)
