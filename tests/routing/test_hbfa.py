"""Honey-bee foraging by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import moment, routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.hbfa import HBFA


def answers(policy, *, load, free, **more):
    return [routed(policy, moment(load, free, [1], seed=seed, **more))[0] for seed in range(600)]


def test_only_workers_up_to_the_mean_load_attract():
    """Mean 40: the worker of 50 does not dance, though it has room."""
    assert set(answers(HBFA(scouts=0), load=[50, 30, 40], free=[1] * 3)) == {1, 2}


def test_where_all_with_room_are_overloaded_they_all_dance():
    assert set(answers(HBFA(scouts=0), load=[90, 80, 10], free=[1, 1, 0])) == {0, 1}


def test_followers_come_in_proportion_to_fitness():
    """Means 60 and 2: worker 0 dances 1 / (1.5 * 2), worker 1 1 / (1 * 1.5), worker 2 is overloaded."""
    drawn = answers(HBFA(scouts=0), load=[30, 0, 150], free=[1, 1, 1], running=[2, 1, 3])
    odds = np.array([1 / 3, 1 / 1.5])
    assert np.bincount(drawn, minlength=3)[:2] / 600 == pytest.approx(odds / odds.sum(), abs=0.06)


def test_scouts_look_at_every_worker_with_room():
    drawn = answers(HBFA(scouts=1), load=[500, 0, 10, 20], free=[1, 1, 1, 0])
    assert np.bincount(drawn, minlength=4) / 600 == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.06)


def test_what_was_sent_is_danced_at_once():
    """After 100 tokens to worker 0 only worker 1 is not overloaded."""
    view = moment([0, 10], [2, 2], [100, 1], running=[0, 50])
    drawn = {tuple(HBFA(scouts=0).route(view).worker.tolist())}
    assert drawn == {(0, 1)}


@given(routing_views())
def test_it_keeps_the_contract(view):
    routed(HBFA(), view)


@pytest.mark.parametrize("scouts", [-0.1, 1.1, float("nan")])
def test_scouts_out_of_range_are_named(scouts):
    with pytest.raises(InputError, match=f"hbfa: scouts is {scouts}; expected a number from 0 to 1"):
        HBFA(scouts=scouts)
