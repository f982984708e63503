"""Which requests are overdue."""

from __future__ import annotations

import numpy as np
import pytest
from tests.routing._routed import moment, rule_view

from evenstep.compiled import as_plain
from evenstep.errors import InputError
from evenstep.routing import filling
from evenstep.routing.filling import count_overdue
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.max_min import MaxMin
from evenstep.routing.policies.min_min import MinMin
from evenstep.routing.policies.olb_lbmm import OlbLbmm
from evenstep.routing.view import RoutingView


def overdue(view: RoutingView, age_limit: float) -> int:
    return as_plain(count_overdue)(rule_view(view), age_limit)


def test_overdue_is_the_front_of_the_pool_that_waited_longer_than_the_limit():
    view = moment([0], [12], [1, 1, 1], waited_s=[31.0, 30.0, 2.0], mean_wait_s=2.0)
    assert [overdue(view, limit) for limit in (15.0, 14.0, 0.5, 0.0)] == [1, 2, 3, 0]


def test_overdue_requests_take_a_quarter_of_the_free_slots_and_one_at_least():
    for free, most in ((1, 1), (7, 1), (8, 2), (40, 3)):
        view = moment([0], [free], [1, 1, 1], waited_s=[9.0, 9.0, 9.0], mean_wait_s=1.0)
        assert overdue(view, 2.0) == most


def test_nothing_is_overdue_before_the_first_admission():
    assert overdue(moment([0], [1], [1], waited_s=[99.0], mean_wait_s=0.0), 15.0) == 0


def test_late_requests_are_counted_from_the_oldest_on_up_to_a_number():
    view = rule_view(moment([0], [4], [1, 1, 1, 1], waited_s=[9.0, 5.0, 5.0, 1.0]))
    count_late = as_plain(filling.count_late)
    assert [count_late(4, limit, view) for limit in (0.5, 4.0, 5.0, 8.0, 9.0)] == [4, 3, 1, 1, 0]
    assert [count_late(most, 4.0, view) for most in (0, 1, 2, 3, 4)] == [0, 1, 2, 3, 3]


@pytest.mark.parametrize("value", [-0.5, np.inf, np.nan])
@pytest.mark.parametrize("policy", [BR0, MaxMin, MinMin, OlbLbmm])
def test_a_bad_age_limit_is_refused(policy, value):
    with pytest.raises(InputError, match="age_limit is .*; expected a finite number >= 0. 0 switches ageing off."):
        policy(age_limit=value)
