"""Events can be written down and read again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "dispatcher.md").read_text(encoding="utf-8")


def test_every_event_says_what_it_is_and_has_a_name_of_its_own():
    kinds = get_args(ev.Event)
    assert all(kind.__doc__ and "now_s" in kind.__struct_fields__ for kind in kinds)
    assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)


def test_an_event_survives_the_log():
    event = ev.Arrived(now_s=1.5, request=3, prompt_tokens=7, blocks=(1, 2), tenant="t")
    for room in (msgspec.json, msgspec.msgpack):
        assert room.decode(room.encode(event), type=ev.Event) == event


@pytest.mark.parametrize("kind", [*get_args(ev.Event), *get_args(co.Command)], ids=lambda kind: kind.__name__)
def test_every_event_and_command_has_its_line_with_all_fields_in_the_reference(kind):
    line = re.search(rf"^\| `{kind.__name__}` \| (?:`([a-z_, ]+)`)? *\|", PAGE, re.M)
    assert line, f"docs/reference/dispatcher.md has no line for {kind.__name__}"
    told = (line.group(1) or "").split(", ") if line.group(1) else []
    assert told == [name for name in kind.__struct_fields__ if name != "now_s"]


def test_every_setting_of_the_dispatcher_has_its_line_in_the_reference():
    part = PAGE.partition("## Settings")[2].partition("## Decision log")[0]
    missing = [field for field in Settings.__struct_fields__ if f"`{field}`" not in part]
    assert not missing, f"docs/reference/dispatcher.md, Settings, has no line for {missing}"
