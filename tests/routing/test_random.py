"""Random routing: fair, keyed, and its kernel."""

from __future__ import annotations

from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.routing.policies.random import Random


def test_every_worker_with_a_slot_is_reached_about_equally_often():
    sent = [routed(Random(), moment([0] * 3, [1, 0, 1], [1], seed=seed))[0] for seed in range(400)]
    assert set(sent) == {0, 2}
    assert 150 < sent.count(0) < 250


def test_a_request_throws_the_same_dice_wherever_it_stands_in_the_pool():
    alone = routed(Random(), moment([0] * 5, [9] * 5, [1], waiting_id=[77]))
    behind = routed(Random(), moment([0] * 5, [9] * 5, [1, 1], waiting_id=[5, 77]))
    assert behind[1] == alone[0]


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(Random(), view)
