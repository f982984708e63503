"""What workers can do: by speed, or as an option states it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.routing._routed import moment, rule_view

from evenstep.compiled import jit
from evenstep.errors import InputError
from evenstep.routing import capability
from evenstep.routing.capability import check_capabilities


@jit
def list_capabilities(view, stated, found):
    return capability.list_capabilities(view, stated, found)


def listed(view, *stated):
    found = np.zeros(view.load.size)
    largest = list_capabilities(rule_view(view), np.array(stated, np.float64), found)
    assert largest == found.max()
    return found.tolist()


def test_by_speed_the_fastest_worker_has_one():
    assert listed(moment([0] * 3, [1] * 3, [], seconds_per_token=[2e-7, 1e-7, 4e-7])) == [0.5, 1.0, 0.25]


def test_stated_numbers_are_repeated_over_the_fleet():
    assert listed(moment([0] * 5, [1] * 5, []), 2.0, 1.0) == [2, 1, 2, 1, 2]


def test_where_a_token_costs_nothing_all_are_alike():
    assert listed(moment([0, 0], [1, 1], [], seconds_per_token=[0.0, 1e-7])) == [1, 1]


@pytest.mark.parametrize("text", ["1/0", "-1", "1/x", "2000*1"])
def test_a_bad_capability_is_named(text):
    with pytest.raises(InputError, match="^p: w"):
        check_capabilities("p", "w", text)
