"""Which requests are overdue."""

from __future__ import annotations

import numpy as np
import pytest
from tests.routing._routed import moment, rule_view

from evenstep.compiled import as_plain
from evenstep.errors import InputError
from evenstep.routing.filling import check_age_limit, count_overdue
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


@pytest.mark.parametrize("value", [-0.5, np.inf, np.nan])
def test_a_bad_age_limit_is_refused(value):
    with pytest.raises(InputError, match="br-0: age_limit"):
        check_age_limit("br-0", value)
