"""Slots that classes share: what each is owed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.best_shares import COUNTERS, SLOT, are_shared, due_to, filled, pay, quotas, shares_of, slack_of
from tests.oracles.bf_io_moment import Moment
from tests.routing._routed import moment

from evenstep.request import I8
from evenstep.routing.view import RoutingView

classes = st.lists(st.integers(0, 4), min_size=1, max_size=30)


def looked_at(view: RoutingView) -> Moment:
    return Moment.of(view, 0, 1.0, 0.0, 0, 0.0)


@given(classes, st.integers(1, 30), st.lists(st.floats(0.1, 10.0), min_size=1, max_size=5), st.data())
def test_quotas_use_every_slot_and_only_touch_classes_beyond_the_slack(
    waiting: list[int], free: int, weights: list[float], data: st.DataObject
) -> None:
    view = moment([0.0], [free], [1.0] * len(waiting), waiting_class=waiting)
    owed = np.array(data.draw(st.lists(st.integers(-30, 30), min_size=5, max_size=5)) + [0] * (COUNTERS - 5)) * SLOT
    found = looked_at(view)
    kind, quota = quotas(weights, view, found, owed)
    assert quota.sum() == found.count and quota.min() >= 0
    if not are_shared(weights, view, found):
        assert kind.tolist() == [0] * len(waiting)
        return
    slack = slack_of(view)
    numbers, demand, shares = shares_of(weights, view, found, found.count)
    for c, number in numbers.items():
        due = due_to(int(owed[c]), shares[number], demand[number], slack)
        own = {int(k) for k, one in zip(kind, waiting, strict=True) if one == c}
        assert len(own) == 1
        if abs(due) <= slack:
            assert own == {0}
        if due < -slack:
            assert quota[own.pop()] == 0


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6), st.data())
def test_shares_are_by_weight_and_no_more_than_needed(weight: list[float], data: st.DataObject) -> None:
    demand = data.draw(st.lists(st.integers(1, 20), min_size=len(weight), max_size=len(weight)))
    count = data.draw(st.integers(1, sum(demand)))
    found = filled(weight, demand, count)
    assert abs(sum(found) - count) < 1e-6
    level = [share / w for share, w, need in zip(found, weight, demand, strict=True) if share < need - 1e-9]
    assert all(abs(one - level[0]) < 1e-6 for one in level)
    assert all(share <= need + 1e-9 for share, need in zip(found, demand, strict=True))


def test_an_admission_pays_and_a_class_that_waits_no_more_is_owed_nothing():
    view = moment([0.0], [2], [1.0] * 4, waiting_class=[1, 1, 2, 2 + COUNTERS])
    owed: I8 = np.zeros(COUNTERS, np.int64)
    owed[1:3] = 2 * SLOT
    pay((1.0, 2.0), view, looked_at(view), np.array([0, -1, -1, -1]), owed)  # shares 2/4, 1/4 and 1/4 of one
    assert owed[1:3].tolist() == [1.5 * SLOT, 2.5 * SLOT]
    pay((1.0, 2.0), view, looked_at(view), np.array([0, 0, -1, -1]), owed)
    assert owed[1:3].tolist() == [0, 3.5 * SLOT]


def test_memory_that_takes_fewer_than_the_slots_divides_only_what_it_takes():
    view = moment([0.0, 0.0], [9, 9], [10.0] * 40, waiting_class=[0, 1] * 20, kv_free=[25.0, 9.0])
    owed: I8 = np.zeros(COUNTERS, np.int64)
    owed[:2] = 6 * SLOT, -6 * SLOT
    kind, quota = quotas((1.0, 1.0), view, looked_at(view), owed)
    assert quota.tolist() == [0, 2, 0] and kind.tolist() == [1, 2] * 20
    assert owed[:2].tolist() == [6 * SLOT, -6 * SLOT], "what is admitted counts, not what might be"


def test_nobody_pays_where_nothing_is_shared():
    view = moment([0.0], [2], [1.0] * 4, waiting_class=[1, 1, 2, 2])
    owed: I8 = np.zeros(COUNTERS, np.int64)
    sent = np.array([0, -1, 0, -1])
    pay((), view, looked_at(view), sent, owed)
    alone = replace(view, waiting_class=np.ones(4, np.int64))
    pay((1.0,), alone, looked_at(alone), sent, owed)
    assert not owed.any()
