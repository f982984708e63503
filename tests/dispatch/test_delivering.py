"""Chunks counted one by one and many at once: two implementations of one promise."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dispatch.told import Story

from evenstep.dispatch.delivering_kernel import deliver
from evenstep.dispatch.records import Chunks


def fleet(workers: int, requests: int, log=None) -> tuple[Story, list[int]]:
    """Workers of two groups with running requests, and the rows of these."""
    told = Story(**({"log": log} if log else {}))
    for worker in range(workers):
        told.worker(f"w{worker}", slots=requests, group="one" if worker % 2 else "")
    return told, [told.sent(request, prompt_tokens=10 + request).row for request in range(requests)]


def one_by_one(told: Story, rows: list[int], tokens: list[int], now_s: float) -> None:
    told.d.now_s = now_s
    for row, count in zip(rows, tokens, strict=True):
        told.d.produced(row, count)


def at_once(told: Story, rows: list[int], tokens: list[int], now_s: float, ahead: bool) -> None:
    """As the relay tells of them: it may have counted the first of them itself."""
    dispatcher, chunks = told.d, np.array([*rows, *tokens], np.int64)
    dispatcher.now_s = now_s
    counted = deliver(chunks, 0, len(rows), now_s, dispatcher.counts) if ahead else 0
    dispatcher.produced_all(chunks, counted, len(rows))


def state(told: Story) -> tuple[object, ...]:
    """Everything that chunks change."""
    told.d.check()
    dispatcher = told.d
    steps = dispatcher.lockstep
    return (
        json.dumps(dispatcher.snapshot(), sort_keys=True, default=str),
        dispatcher.rows.ints.tolist(),
        list(dispatcher.rows.step),
        [
            list(one)
            for one in (steps.step, steps.delivered, steps.expected, steps.counts_tokens, steps.early)
        ],
        [str(one) for one in steps.seen_s],
        [[(one.delivered, one.going, one.seen_s) for one in early] for early in steps._early],
        dispatcher.due,
    )


@st.composite
def chunks(draw):
    """Requests, and batches of chunks in any order: mostly in step, now and then ahead or several tokens at once."""
    requests = draw(st.integers(1, 7))
    batches = []
    for _ in range(draw(st.integers(1, 12))):
        places = draw(st.permutations(range(requests)))
        size = draw(st.integers(1, requests))
        usual = draw(st.sampled_from([1, 1, 2, 8, 9]))
        tokens = [draw(st.sampled_from([usual, usual, usual, 1, 3])) for _ in range(size)]
        batches.append((list(places[:size]), tokens))
    return requests, batches, draw(st.integers(1, 3)), draw(st.booleans())


@settings(max_examples=150, deadline=None)
@given(chunks())
def test_many_at_once_leave_the_same_state(case):
    requests, batches, workers, ahead = case
    (one, rows), (other, same) = fleet(workers, requests), fleet(workers, requests)
    assert rows == same
    for number, (places, tokens) in enumerate(batches):
        now_s = 1.0 + 0.02 * number
        one_by_one(one, [rows[place] for place in places], tokens, now_s)
        at_once(other, [rows[place] for place in places], tokens, now_s, ahead)
        assert state(one) == state(other)


def test_a_step_of_many_is_counted_without_the_long_way_but_for_its_ends():
    told, rows = fleet(1, 6)
    slow = []
    deliver_one = told.d._deliver
    told.d._deliver = lambda *args: (slow.append(args), deliver_one(*args))
    for step in range(10):
        at_once(told, rows, [8] * 6, 1.0 + step, ahead=True)
    assert told.d.rows.ints[:, rows].max() >= 80
    assert len(slow) <= 6 + 6 + 9 * 2  # first tokens, the first step with eight, two ends of each other one


def test_the_log_has_the_same_chunks_either_way():
    def logged(give):
        records = []
        told, rows = fleet(1, 4, records.append)
        for step in range(3):
            give(told, rows, [1, 2, 1, 1], 1.0 + step)
        told.d.flush()
        return [record for record in records if isinstance(record, Chunks)]

    first = logged(one_by_one)
    assert first == logged(lambda *args: at_once(*args, ahead=False))
    assert first[-1].rows and first[-1].tokens[:4] == [1, 2, 1, 1]
