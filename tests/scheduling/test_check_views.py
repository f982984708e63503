"""The views of the checks are what a host could show."""

import numpy as np

from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.order import ARRIVAL, QueueOrder


def test_views_are_consistent_and_of_every_kind():
    views = list(check_views(ARRIVAL, 2))
    for view in views:
        assert (view.left >= 1).all() and (view.left[view.decoding] == 1).all()
        assert not view.resident[~view.running].any()
        assert view.kv_free == view.kv_capacity - view.resident.sum() >= 0
        assert all(view.held_after(k, int(view.left[k])) <= view.kv_capacity for k in range(view.left.size))
        assert (view.reached >= view.lost_at).all() and view.memory.tolist() == [0, 0]
        assert (np.diff(view.running.astype(int)) <= 0).all()
    assert any((view.prefilled[~view.running] > 0).any() for view in views)
    assert any(view.left.size == 0 for view in views) and any(view.first_decoded for view in views)


def test_the_queue_is_in_the_order_a_policy_asks_for():
    for view in check_views(QueueOrder(prompt=1.0), 0):
        assert (np.diff(view.prompt_tokens[~view.running]) >= 0).all()


def test_the_same_views_come_every_time_and_are_read_only():
    one, other = (list(check_views(ARRIVAL, 0))[:5] for _ in range(2))
    assert all(np.array_equal(a.left, b.left) for a, b in zip(one, other, strict=True))
    assert not one[0].left.flags.writeable
