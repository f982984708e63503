"""The numbers of a group's steps."""

from __future__ import annotations

from evenstep.dispatch.steps import steps_layout as layout
from evenstep.dispatch.steps.steps import Steps


def test_every_number_has_a_place_of_its_own():
    names = [name for name in vars(layout) if name.isupper()]
    others = {"FLOATS", "NEW", "TOGETHER", "KEEP", "FEWEST", "ERROR"}
    places = sorted(getattr(layout, name) for name in names if name not in others)
    assert places == list(range(layout.FLOATS))


def test_one_worker_keeps_nothing_of_idle_time():
    assert len(Steps([3]).numbers) == layout.FLOATS + 1
    assert len(Steps([3, 5]).numbers) == layout.FLOATS + 2 + layout.NEW * layout.TOGETHER
