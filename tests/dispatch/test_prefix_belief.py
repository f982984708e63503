"""What an engine's prefix-cache counters change of what it is believed to hold."""

from __future__ import annotations

import math

import pytest

from evenstep.dispatch.fleet.prefix_belief import Belief


def window(believed, *, requests=64, held=1000, asked=1.0, found=0.5, most=1000):
    """A belief after one window of requests of 100 tokens; `asked` and `found` are shares of the tokens sent."""
    belief = Belief(most)
    assert not belief.told(7, 3, held)  # the counters run since before
    for _ in range(requests):
        belief.sent(100, believed)
    sent = 100 * requests
    return belief, belief.told(7 + int(asked * sent), 3 + int(found * sent), held)


def test_a_belief_that_is_too_high_leaves_room_for_fewer_of_the_blocks_held():
    belief, changed = window(80, found=0.6, held=401)
    assert changed
    assert belief.room == 300
    assert (belief.believed_share, belief.true_share) == (0.8, 0.6)


def test_one_step_takes_half_of_them_at_most():
    belief, _ = window(80, found=0.0, held=400)
    assert belief.room == 200


def test_a_belief_that_is_true_stays():
    assert not window(80, found=0.8)[1]


def test_few_requests_show_nothing():
    belief, changed = window(80, requests=31)
    assert not changed
    assert math.isnan(belief.true_share)


def test_hits_of_others_are_neither_for_nor_against_it():
    assert not window(50, asked=2.0, found=1.2)[1]  # ours can be all of them, or a fifth
    belief, _ = window(50, asked=2.0, found=0.4)  # ours are 40 % at most
    assert belief.room == 800


def test_an_engine_that_looks_nothing_up_holds_nothing():
    assert not window(80, requests=100, asked=0.0, found=0.0)[1]  # it may be late
    belief, _ = window(80, requests=256, asked=0.0, found=0.0)
    assert belief.room == 500
    for _ in range(10):
        for _ in range(256):
            belief.sent(100, 80)
        belief.told(7, 3, belief.room)
    assert belief.room == 0


def test_room_grows_again_where_the_engine_hits_more_up_to_the_most():
    belief, _ = window(80, found=0.4, held=400)
    assert belief.room == 200
    queried, hit = 7 + 6400, 3 + 2560
    for held, expected in ((199, 200), (200, 300), (300, 449), (449, 673), (673, 1000), (1000, 1000)):
        for _ in range(64):
            belief.sent(100, 40)
        queried, hit = queried + 6400, hit + 3840
        belief.told(queried, hit, held)
        assert belief.room == pytest.approx(expected, abs=2)  # while there is room it does not grow


@pytest.mark.parametrize("room", [0, 5])
def test_even_from_nothing(room):
    belief = Belief(100)
    belief.room = room
    belief.told(0, 0, room)
    for _ in range(64):
        belief.sent(100, 0)
    assert belief.told(6400, 640, room)
    assert belief.room == room + 16


def test_an_engine_that_began_anew_or_says_nothing_is_not_compared():
    belief = Belief(100)
    belief.told(1000, 500, 100)
    for _ in range(64):
        belief.sent(100, 90)
    assert not belief.told(-1, -1, 100)
    assert not belief.told(640, 0, 100)
    for _ in range(31):
        belief.sent(100, 90)
    assert not belief.told(3740, 0, 100)
    assert belief.room == 100
