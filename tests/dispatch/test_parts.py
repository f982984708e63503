"""The parts of a dispatcher are one state."""

from __future__ import annotations

from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.parts import Parts
from evenstep.dispatch.settings import Settings


def test_each_part_is_made_once_and_shared():
    parts = Parts(Settings(), "br-0:bypass=true", "", None)
    assert parts.slots._rows is parts.rows is parts.deciding.rows
    assert parts.rounds.binds_at_once and parts.deadlines.timers is parts.fleet.timers


def test_a_dispatcher_is_one_class_that_holds_parts():
    assert Dispatcher.__mro__ == (Dispatcher, object)
