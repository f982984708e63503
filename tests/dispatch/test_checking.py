"""The invariants notice what is wrong: each is broken once by hand."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story


def busy():
    story = Story(ttl_s=1.0)
    story.worker("a", slots=1)
    sent = story.sent(1)
    story.chunk(sent.row)
    story.arrives(2)
    return story.d, sent.row


def breakages():
    return {
        "the mirror": lambda d, row: d.mirror.at.load.__setitem__(0, 3.0),
        "requests in 1 slots": lambda d, row: (
            d.rows.at.copies.__setitem__(row, 2),
            d.mirror.at.running.__setitem__(0, 2),
        ),
        "the pool": lambda d, row: d.pool.remove(d.pool.oldest()),
        "waiting": lambda d, row: setattr(d.parts.limits.of[row], "waiting", 7),
        "present": lambda d, row: setattr(d.parts.limits.of[row], "requests", 7),
        "used twice": lambda d, row: d.rows.free.append(row),
        "waited longer": lambda d, row: (
            setattr(d, "now_s", 9.0),
            d.parts.fleet.timers.set(("ttl", d.pool.oldest()), 99.0),
        ),
        "requests say": lambda d, row: d.mirror.at.sent.__setitem__(0, 1),
    }


@pytest.mark.parametrize("said", breakages())
def test_a_broken_invariant_is_named(said):
    dispatcher, row = busy()
    dispatcher.check()
    breakages()[said](dispatcher, row)
    with pytest.raises(RuntimeError, match=said):
        dispatcher.check()
