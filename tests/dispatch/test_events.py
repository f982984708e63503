"""Events can be written down and read again."""

from __future__ import annotations

from typing import get_args

import msgspec

from evenstep.dispatch import events as ev


def test_every_event_says_what_it_is_and_has_a_name_of_its_own():
    kinds = get_args(ev.Event)
    assert all(kind.__doc__ and "now_s" in kind.__struct_fields__ for kind in kinds)
    assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)


def test_an_event_survives_the_log():
    event = ev.Arrived(now_s=1.5, request=3, prompt_tokens=7, blocks=(1, 2), tenant="t")
    for room in (msgspec.json, msgspec.msgpack):
        assert room.decode(room.encode(event), type=ev.Event) == event
