"""What sending changes in the tables."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.transitions import State
from evenstep.routing.view import HOLD


def waiting(*prompts: int) -> Story:
    """Two workers, and requests that wait."""
    story = Story("jsq")
    story.worker("a", slots=9)
    story.worker("b", slots=9)
    for request, prompt in enumerate(prompts):
        story.arrives(request, prompt_tokens=prompt)
    return story


def test_requests_that_are_not_held_go_to_their_workers_in_order():
    story = waiting(10, 20, 30)
    d, rows = story.d, list(story.d.pool.here)
    chosen = np.array(rows)
    assert d.parts.slots.send(chosen, np.array([1, HOLD, 1]), 3) == 2
    assert chosen[:2].tolist() == [rows[0], rows[2]]
    at, workers = d.rows.at, d.mirror.columns.arrays
    assert [at.state[row] for row in rows] == [State.SENT, State.POOLED, State.SENT]
    assert [at.leg[row] for row in rows] == [1, 0, 2] and [at.worker[row] for row in rows] == [1, -1, 1]
    assert workers.sent.tolist() == workers.came.tolist() == [0, 2] and workers.sent_load.tolist() == [
        0.0,
        40.0,
    ]
    assert list(d.pool) == [rows[1]]
    d.check()


def test_nothing_changes_where_one_request_may_not_be_sent():
    story = waiting(10, 20)
    d, rows = story.d, np.array(story.d.pool.here)
    d.parts.slots.send(rows[1:], np.array([0]), 1)
    before = d.rows.columns.ints.copy()
    with pytest.raises(RuntimeError, match="a request that is SENT cannot become SENT"):
        d.parts.slots.send(rows, np.array([0, 0]), 2)
    assert np.array_equal(d.rows.columns.ints, before)
    d.check()


def test_a_request_of_several_copies_is_sent_once_it_holds_all_its_slots():
    story = Story("jsq")
    story.worker("a", slots=3)
    first = story.sent(1, copies=2)
    story.arrives(2, copies=2)
    assert not [c for c in story.tick() if isinstance(c, SendDecode)]
    workers, row = story.d.mirror.columns.arrays, story.d.rows.by_request[2]
    assert workers.reserved.tolist() == [1] and story.d.rows.at.seated[row] == 1
    told = story.finishes(first)
    assert [c.request for c in told if isinstance(c, SendDecode)] == [2]
    workers = story.d.mirror.columns.arrays
    assert workers.reserved.tolist() == [0] and workers.sent.tolist() == [2]
