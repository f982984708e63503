"""The table of states."""

from __future__ import annotations

import re
from pathlib import Path

from evenstep.dispatch import commands, events
from evenstep.dispatch.transitions import MAY_FOLLOW, TABLE, State, impossible

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "the-life-of-a-request.md"


def test_every_state_can_be_reached_and_left():
    assert set(TABLE) == set(State) == {following for found in TABLE.values() for following in found}


def test_a_change_that_is_not_listed_is_impossible():
    for state in State:
        for following in State:
            assert MAY_FOLLOW[state][following] == (following in TABLE[state])
    assert str(impossible(State.FREE, State.RUNNING)) == "a request that is FREE cannot become RUNNING"


def test_what_leads_to_a_state_names_only_events_and_commands():
    said = {name for found in TABLE.values() for text in found.values() for name in re.findall(r"`(\w+)`", text)}
    assert [name for name in said if not (hasattr(events, name) or hasattr(commands, name))] == []


def test_the_page_shows_the_table():
    shown = PAGE.read_text(encoding="utf-8")
    for state in State:
        for following, text in TABLE[state].items():
            line = f"| {state.name} | {following.name} | {text} |"
            if following is State.FREE:
                line = f"| any other | FREE | {text} |"
            assert line in shown, line
    assert len(re.findall(r"^\| [A-Z_]+ \| [A-Z_]+ \|", shown, re.MULTILINE)) == sum(
        following is not State.FREE for found in TABLE.values() for following in found
    )
