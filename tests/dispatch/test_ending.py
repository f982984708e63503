"""Whole answers ended one by one, the long way, and many at once: two implementations of one promise."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dispatch.batches import Batches, state
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.ending import TOGETHER


def the_long_way(batches: Batches) -> None:
    """Neither rounds nor ends go through compiled code."""
    d = batches.d

    def finished_all(events):
        for event in events:
            d.now_s = max(d.now_s, event.now_s)
            d._finish(event.request, event.leg, event.prompt_tokens, event.output_tokens)
        return len(events)

    d.finished_all, d._send_all, d.arrived_all = (
        finished_all,
        lambda shown, worker: -1,
        lambda events: 0,
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_many_at_once_leave_the_state_that_the_long_way_leaves(seed):
    short, long = Batches(seed), Batches(seed)
    the_long_way(long)
    for _ in range(25):
        events = short.batch()
        assert long.batch() == events
        assert short.together(events) == long.one_by_one(events)
        assert state(short.d) == state(long.d)


def test_more_answers_than_are_ended_at_once_all_end():
    story = Story("jsq", round_slots=0)
    story.worker("a", slots=300)
    for request in range(2 * TOGETHER + 3):
        story.arrives(request)
    sent = story.tick()
    ends = [ev.Finished(now_s=1.0, request=c.request, leg=c.leg, output_tokens=2) for c in sent]
    ends.insert(5, ends[0])  # told twice
    story.d.finished_all(ends[:TOGETHER])
    assert story.d.meters.late == 1
    for event in ends[TOGETHER:]:
        story.d.handle(event)
    story.d.check()
    shown = story.d.snapshot()
    assert shown["requests_present"] == 0 and shown["output_tokens_total"] == 2 * len(sent)


def test_the_rest_of_a_run_ends_though_one_of_it_goes_the_long_way():
    slow = []
    story = Story("jsq")
    story.worker("a", slots=9)
    sent = [story.sent(request) for request in range(4)]
    story.chunk(sent[1].row)
    finish = story.d._finish
    story.d._finish = lambda request, *rest: (slow.append(request), finish(request, *rest))
    story.d.finished_all(
        [
            ev.Finished(now_s=1.0, request=c.request, leg=c.leg, output_tokens=int(c is not sent[1]))
            for c in sent
        ]
    )
    story.d.check()
    assert slow == [1] and not story.d.rows.by_request
