"""Deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenstep.dispatch.timers import Timers


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.booleans()), max_size=200),
    st.integers(0, 20),
)
def test_what_is_due_comes_in_order_and_what_was_moved_or_cleared_does_not(told, now):
    timers, kept = Timers(), {}
    for name, at, clears in told:
        if clears:
            timers.clear(("x", name))
            kept.pop(name, None)
        else:
            timers.set(("x", name), float(at))
            kept[name] = at
    assert timers.next_s == min(kept.values(), default=float("inf")) and len(timers.at) == len(kept)
    found = []
    while (name := timers.pop(float(now))) is not None:
        found.append((kept.pop(name[1]), name[1]))
    assert found == sorted(found) and all(at > now for at in kept.values())
    assert len(timers.at) == len(kept)
