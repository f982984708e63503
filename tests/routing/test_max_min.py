"""Max-min by hand, and its kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.routing._routed import assert_doors_agree, moment, routed
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing.policies.max_min import MaxMin


def test_the_longest_go_first_each_to_the_lightest_worker():
    assert routed(MaxMin(), moment([0, 5], [2, 1], [1, 9, 8, 2])) == [-1, 0, 1, 0]


def test_overdue_requests_go_before_longer_ones():
    view = moment([0, 5], [1, 0], [1, 9], waited_s=[16.0, 1.0])
    assert routed(MaxMin(age_limit=15), view) == [0, -1]
    assert routed(MaxMin(age_limit=0), view) == [-1, 0]


def test_predicted_lengths_count_the_output_and_the_prompt_alone_where_nothing_is_expected():
    view = moment([0], [1], [5, 4, 4], waiting_steps=[float("nan"), 9.0, 2.0])
    assert routed(MaxMin(length="predicted"), view) == [-1, 0, -1]


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_a_bad_age_limit_is_an_error_that_names_it(value):
    with pytest.raises(InputError, match="max-min: age_limit is"):
        MaxMin(age_limit=value)


@given(routing_views())
def test_both_doors_agree(view):
    assert_doors_agree(MaxMin(), view)
    assert_doors_agree(MaxMin(length="predicted", age_limit=0), view)
