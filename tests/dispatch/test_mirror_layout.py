"""The columns of the table of workers."""

from __future__ import annotations

from evenstep.dispatch.fleet import mirror_layout as layout
from evenstep.dispatch.fleet.mirror import Mirror


def test_every_column_has_its_place():
    ints = [
        layout.RUNNING, layout.SENT, layout.RESERVED, layout.FREE_AT_MOST, layout.FOREIGN, layout.GROUP, layout.CAME,
        layout.WENT, layout.CHANGES,
    ]  # fmt: skip
    floats = [
        layout.LOAD, layout.SENT_LOAD, layout.FOREIGN_LOAD, layout.CAPACITY, layout.SECONDS_PER_TOKEN, layout.HEARD_S,
    ]  # fmt: skip
    assert ints == list(range(layout.INTS)) and floats == list(range(layout.FLOATS))
    assert Mirror().columns.ints.shape == (layout.INTS, 0)
