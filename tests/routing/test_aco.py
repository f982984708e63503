"""The ant colony on instances small enough to enumerate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import moment, routed, rule_view
from tests.strategies import routing_views

from evenstep.compiled import jit, options_of
from evenstep.errors import InputError
from evenstep.routing.filling import Room
from evenstep.routing.policies import aco
from evenstep.routing.policies.aco import ACO


@jit
def build(U, view, options, work):
    return aco.build(0, 0, U, view, options, work)


def imbalance(load, sizes, worker):
    ends = np.array(load, float)
    for size, g in zip(sizes, worker, strict=True):
        ends[g] += size
    return ends.size * ends.max() - ends.sum()


def test_the_ants_find_the_best_of_a_small_instance():
    load, sizes = [90, 40, 10], [50, 30, 20, 10]
    found = routed(ACO(), moment(load, [2, 2, 2], sizes))
    fitting = [w for w in product(range(3), repeat=4) if max(np.bincount(w)) <= 2]
    assert imbalance(load, sizes, found) == min(imbalance(load, sizes, w) for w in fitting)


def test_more_iterations_never_do_worse():
    """The first iterations draw the same dice, and the best assignment of all iterations is kept."""
    load, sizes = [10, 60, 30, 0], [40, 10, 35, 5, 20]
    found = []
    for iterations in (1, 4, 16):
        worker = routed(ACO(iterations=iterations, ants=2), moment(load, [2] * 4, sizes, seed=3))
        found.append(imbalance(load, sizes, worker))
    assert found == sorted(found, reverse=True) and found[0] > found[-1]


@pytest.mark.slow
def test_ants_follow_pheromone_and_what_lies_near():
    """A strong trail is followed against sight; without one, sight alone prefers the light worker by its square."""
    view = moment([400, 0], [60] * 2, [100] * 60)
    counts, tokens = np.zeros((2, 2), np.int64), np.zeros((4, 2))
    work = aco.Work(
        Room(np.zeros(60, np.int64), counts[0], tokens[0], counts[1], tokens[1]),
        tokens[2],
        tokens[3],
        np.zeros(60, np.int64),
        np.tile([1e12, 1.0], (60, 1)),
    )
    options = options_of(ACO)[0](ants=4, iterations=1, trail=1, sight=2, evaporation=0.5)
    assert build(60, rule_view(view), options, work) == 0
    assert (work.fleet.worker == 0).all() and work.load.tolist() == [6400, 0]
    first = [ACO(ants=1, iterations=1).route(moment([299, 99], [1] * 2, [0.0], seed=s)).worker[0] for s in range(800)]
    assert np.mean(first) == pytest.approx(0.9, abs=0.04)  # odds 1 / 300 ** 2 to 1 / 100 ** 2


def test_the_oldest_are_assigned_and_the_dice_are_of_this_decision():
    view = moment([5] * 4, [1, 0, 1, 0], [3, 2, 9])
    assert routed(ACO(), view)[2] == -1
    answers = {tuple(routed(ACO(ants=1, iterations=1), moment([5] * 4, [1] * 4, [3, 2], seed=s))) for s in range(30)}
    assert len(answers) > 6


@given(routing_views())
def test_it_keeps_the_contract(view):
    routed(ACO(ants=3, iterations=2), view)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ants": 0}, "aco: ants is 0; expected an integer >= 1"),
        ({"iterations": 0}, "aco: iterations is 0"),
        ({"trail": 9}, "aco: trail is 9; expected an integer from 0 to 8"),
        ({"sight": -1}, "aco: sight is -1"),
        ({"evaporation": 1.5}, "aco: evaporation is 1.5; expected a number from 0 to 1"),
    ],
)
def test_an_option_out_of_range_is_named(options, message):
    with pytest.raises(InputError, match=message):
        ACO(**options)
