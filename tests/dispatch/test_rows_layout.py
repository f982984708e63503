"""The columns' numbers."""

from __future__ import annotations

from evenstep.dispatch.requests import rows_layout as at


def test_every_column_has_a_number_of_its_own():
    names = [name for name in vars(at) if name.isupper() and name not in ("INTS", "FLOATS", "NEVER")]
    floats = {"SINCE", "QUEUED_AT", "SENT_AT", "FIRST_AT"}
    assert sorted(getattr(at, name) for name in names if name not in floats) == list(range(at.INTS))
    assert sorted(getattr(at, name) for name in floats) == list(range(at.FLOATS))
