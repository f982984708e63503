"""The views of the conformance suite."""

from __future__ import annotations

import dataclasses

import numpy as np

from evenstep.routing.check_views import check_views


def test_the_views_are_the_same_every_time_whatever_stands_behind_them():
    for one, other in zip(check_views(2, 1), check_views(2, 1, spare=50), strict=True):
        for field in dataclasses.fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
        assert one.load.base[0] != other.load.base[0]


def test_the_views_cover_the_corners():
    views = list(check_views(0, 0))
    assert any(view.waiting_id.size == 0 for view in views)
    assert any(view.group.max() > 0 for view in views)
    assert any(np.isfinite(view.kv_free).all() for view in views)
    assert any(view.queued.any() for view in views)
    assert not any(view.load.flags.writeable for view in views)
    assert all((view.projections[:, 0] == view.load).all() for view in views)
