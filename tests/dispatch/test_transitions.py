"""The table of states."""

from __future__ import annotations

from evenstep.dispatch.transitions import NEXT, TABLE, Cause, State, impossible


def test_every_state_can_be_reached_and_left_and_every_cause_happens():
    assert set(TABLE.values()) == set(State)
    assert {state for state, _ in TABLE} == set(State)
    assert {cause for _, cause in TABLE} == set(Cause)


def test_whatever_is_not_listed_is_impossible():
    for state in State:
        for cause in Cause:
            if (state, cause) in TABLE:
                assert NEXT[state][cause] == TABLE[state, cause]
            else:
                assert NEXT[state][cause] == -1
                assert cause.name in str(impossible(state, cause))
