"""The table of states."""

from __future__ import annotations

import pytest

from evenstep.dispatch.transitions import TABLE, Cause, State, after


def test_every_state_can_be_reached_and_left_and_every_cause_happens():
    assert set(TABLE.values()) == set(State)
    assert {state for state, _ in TABLE} == set(State)
    assert {cause for _, cause in TABLE} == set(Cause)


def test_whatever_is_not_listed_raises():
    for state in State:
        for cause in Cause:
            if (state, cause) in TABLE:
                assert after(state, cause) == TABLE[state, cause]
            else:
                with pytest.raises(RuntimeError, match=cause.name):
                    after(state, cause)
