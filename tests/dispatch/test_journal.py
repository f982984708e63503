"""The log and the last events hold whatever was told, in batches or one by one."""

from __future__ import annotations

import pickle
from collections import deque

from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.log.journal import Journal
from evenstep.dispatch.log.records import Done


def test_a_batch_leaves_the_log_and_the_history_that_its_events_leave():
    def told(together: bool):
        log = []
        story = Story("jsq", log=log.append)
        story.worker("a", slots=9)
        arrived = [ev.Arrived(now_s=1.0, request=r, prompt_tokens=9) for r in range(5)]

        def give(events):
            batches = [deque(events)] if together else [deque([event]) for event in events]
            return [command for batch in batches for command in story.d.handle_all(batch)]

        sent = [c for c in give([*arrived, ev.Tick(now_s=1.0)]) if isinstance(c, SendDecode)]
        give([ev.Finished(now_s=1.0 + c.leg, request=c.request, leg=c.leg, output_tokens=3) for c in sent])
        return log, [event for event, _ in story.d.history]

    batch, single = told(True), told(False)
    assert batch == single
    ends = [(type(record).__name__, record.request) for record in batch[0] if isinstance(record, ev.Finished | Done)]
    assert ends[:4] == [("Finished", 0), ("Done", 0), ("Finished", 1), ("Done", 1)]
    assert [type(event) for event in batch[1][-5:]] == [ev.Finished] * 5


def test_where_a_log_goes_is_no_part_of_the_state():
    kept = Journal([].append)
    again = pickle.loads(pickle.dumps(kept))
    assert again.log is None
    again.follow(kept)
    assert again.log is kept.log and again.history is kept.history
