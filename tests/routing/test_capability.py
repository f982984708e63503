"""What workers can do: by speed, or as stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.routing._routed import moment
from tests.strategies import routing_views

from evenstep.errors import InputError
from evenstep.routing import capability_kernel
from evenstep.routing.capability import capabilities, check_capabilities
from evenstep.routing.view import SECONDS_PER_TOKEN


def test_by_speed_the_fastest_worker_has_one():
    view = moment([0] * 3, [1] * 3, [], seconds_per_token=[2e-7, 1e-7, 4e-7])
    assert capabilities(view, ()).tolist() == [0.5, 1.0, 0.25]


def test_stated_numbers_are_repeated_over_the_fleet():
    assert capabilities(moment([0] * 5, [1] * 5, []), (2.0, 1.0)).tolist() == [2, 1, 2, 1, 2]


def test_where_a_token_costs_nothing_all_are_alike():
    assert capabilities(moment([0, 0], [1, 1], [], seconds_per_token=[0.0, 1e-7]), ()).tolist() == [1, 1]


@pytest.mark.parametrize("text", ["1/0", "-1", "1/x", "2000*1"])
def test_what_is_no_capability_is_named(text):
    with pytest.raises(InputError, match="^p: w"):
        check_capabilities("p", "w", text)


@given(routing_views())
def test_the_compiled_twin_has_the_same_bits(view):
    workers_f = np.zeros((4, view.load.size))
    workers_f[SECONDS_PER_TOKEN] = view.seconds_per_token
    out = np.zeros(view.load.size)
    for stated in ((), (3.0, 0.7)):
        capability_kernel.capabilities(workers_f, np.array([len(stated), *stated], np.float64), 0, out)
        assert out.tolist() == capabilities(view, stated).tolist()
