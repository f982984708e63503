"""Power of d by hand, and its kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.power_of_d import PowerOfD


def test_it_never_takes_the_longest_queue_while_it_looks_at_two():
    view = [moment([0] * 3, [1] * 3, [1], running=[1, 5, 2], seed=seed) for seed in range(60)]
    assert {routed(PowerOfD(), v)[0] for v in view} == {0, 2}


@given(routing_views())
def test_with_all_workers_sampled_it_is_jsq_with_lowest_ties(view):
    assert PowerOfD(d=99).route(view).worker.tolist() == JSQ(ties="lowest").route(view).worker.tolist()


def test_d_below_one_is_an_error_that_names_it():
    with pytest.raises(InputError, match="power-of-d: d is 0; expected an integer from 1 to 1,000,000"):
        PowerOfD(d=0)


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(PowerOfD(), view)
    assert_doors_agree(PowerOfD(d=3), view)
