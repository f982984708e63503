"""Chunks counted one by one, and many at once: the same state, log and rounds."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.told import Story
from tests.strategies import examples

from evenstep import compiled
from evenstep.dispatch import events as ev
from evenstep.dispatch.deliveries import ROOM
from evenstep.dispatch.log.records import Chunks
from evenstep.dispatch.steps.lockstep import count_chunks

count = compiled.entry(count_chunks)


def fleet(workers: int, requests: int, log=None) -> tuple[Story, list[int]]:
    """Workers of two groups with running requests, and the rows of these."""
    told = Story(**({"log": log} if log else {}))
    for worker in range(workers):
        told.worker(f"w{worker}", slots=requests, group="one" if worker % 2 else "")
    return told, [told.sent(request, prompt_tokens=10 + request).row for request in range(requests)]


def take(told: Story, rows: list[int], tokens: list[int], now_s: float, *, one_by_one: bool) -> None:
    """Deliver the chunks, each a little later than the one before it, and count each by itself or all together."""
    for place, (row, count) in enumerate(zip(rows, tokens, strict=True)):
        told.d.now_s = now_s + 1e-5 * place
        told.d.produced(row, count)
        if one_by_one:
            told.d.count()
    told.d.count()


one_by_one, at_once = partial(take, one_by_one=True), partial(take, one_by_one=False)


def state(told: Story) -> tuple[object, ...]:
    """Everything that chunks change."""
    told.d.check()
    dispatcher = told.d
    steps, columns = dispatcher.parts.barriers.all, [dispatcher.rows.columns, dispatcher.mirror.columns]
    columns += [steps.groups, steps.early, steps.members, steps.news]
    return (
        json.dumps(dispatcher.snapshot(), sort_keys=True, default=str),
        [one.ints.tolist() for one in columns],
        [[str(number) for number in one.floats.ravel()] for one in columns],
        dispatcher.due,
    )


@st.composite
def chunks(draw):
    """Requests, and batches of chunks in any order: mostly in step, now and then late, ahead or several tokens at once.

    Behind a batch a request may end, or one more come, which may find no slot and wait for the end of a step.
    """
    requests = draw(st.integers(1, 7))
    batches = []
    for _ in range(draw(st.integers(1, 12))):
        places = draw(st.permutations(range(requests)))
        size = draw(st.sampled_from([requests, draw(st.integers(1, requests))]))
        usual = draw(st.sampled_from([1, 1, 2, 8, 9, 40, 700]))
        tokens = [draw(st.sampled_from([usual, usual, usual, 1, 3])) for _ in range(size)]
        after = draw(st.sampled_from(["", "", "", "ends", "comes"]))
        batches.append((list(places[:size]), tokens, draw(st.sampled_from([0.02, 0.02, 0.1])), after))
    return requests, batches, draw(st.integers(1, 3))


def happens(told: Story, what: str, rows: list[int], place: int) -> None:
    if what == "comes":
        told.arrives(100 + len(told.d.history))
    elif what == "ends":
        at = told.d.rows.at
        if at.request[rows[place]] == place and at.worker[rows[place]] >= 0:
            told.tell(ev.Finished, request=place, leg=at.leg[rows[place]])


@pytest.mark.parametrize("tokens", [511, 512, 1100, 5000])
def test_a_chunk_of_many_tokens_leaves_room_for_the_next_ones(tokens):
    told, rows = fleet(4, 8)
    for count in (1, 1, tokens, 1, tokens, tokens, 1):
        for row in rows:
            told.now_s += 0.02
            told.chunk(row, count)


@pytest.mark.slow
@examples(120, fast=15)
@given(chunks())
def test_many_at_once_leave_the_same_state(case):
    requests, batches, workers = case
    logs = list[object](), list[object]()
    (one, rows), (other, same) = fleet(workers, requests, logs[0].append), fleet(workers, requests, logs[1].append)
    assert rows == same
    now_s, gone = 1.0, set()
    for places, tokens, after_s, after in batches:
        now_s += after_s
        here = [(rows[place], count) for place, count in zip(places, tokens, strict=True) if place not in gone]
        one_by_one(one, [row for row, _ in here], [count for _, count in here], now_s)
        at_once(other, [row for row, _ in here], [count for _, count in here], now_s)
        for told in (one, other):
            told.now_s = now_s
            happens(told, after, rows, places[0])
        if after == "ends":
            gone.add(places[0])
        assert state(one) == state(other)
    assert logs[0] == logs[1]


@pytest.mark.parametrize("tokens", [1, 8])
def test_many_at_once_leave_the_same_state_also_after_hundreds_of_steps(tokens):
    (one, rows), (other, _) = fleet(3, 6), fleet(3, 6)
    for step in range(600 // tokens):
        now_s = 1.0 + 0.02 * step + 0.001 * (step % 7)
        one_by_one(one, rows, [tokens] * 6, now_s)
        at_once(other, rows, [tokens] * 6, now_s)
    assert state(one) == state(other)
    assert min(one.d.parts.barriers.all.at.steps) > 500


def test_more_chunks_at_once_than_are_kept_leave_the_same_state_and_log():
    logs = list[object](), list[object]()
    (one, rows), (other, _) = fleet(3, 6, logs[0].append), fleet(3, 6, logs[1].append)
    chunks = [*rows * (ROOM // 4), *rows[:5]]
    one_by_one(one, chunks, [1] * len(chunks), 1.0)
    at_once(other, chunks, [1] * len(chunks), 1.0)
    assert state(one) == state(other)
    one.d.flush(), other.d.flush()
    assert logs[0] == logs[1] and len(logs[0][-1].rows) == len(chunks) > ROOM


@pytest.mark.parametrize("far", [1, 3, 10])
def test_chunks_that_are_steps_ahead_leave_the_same_state(far):
    (one, rows), (other, _) = fleet(1, 4), fleet(1, 4)
    chunks = [*rows * 2, *[row for row in rows[:3] for _ in range(1 + far)], *rows]
    for number, row in enumerate(chunks):
        one_by_one(one, [row], [1], 1.0 + 0.02 * number)
        at_once(other, [row], [1], 1.0 + 0.02 * number)
        assert state(one) == state(other)


def slow_ones(told: Story) -> list[tuple[object, ...]]:
    """Gets every chunk that goes the long way from here on."""
    slow = []
    deliver_one = told.d.deliveries._deliver
    told.d.deliveries._deliver = lambda *args: (slow.append(args), deliver_one(*args))
    return slow


def test_steps_are_counted_without_the_long_way_from_beginning_to_end():
    told, rows = fleet(1, 6)
    at_once(told, rows, [1] * 6, 0.5)
    slow = slow_ones(told)
    for step in range(10):
        at_once(told, rows, [8] * 6, 1.0 + step)
    assert told.d.rows.columns.ints[:, rows].max() >= 80
    assert not slow


def test_where_somebody_waits_for_the_end_of_a_step_counting_stops_there():
    told, rows = fleet(1, 2)
    for now_s in (1.0, 2.0):
        at_once(told, rows, [1, 1], now_s)
    told.now_s = 2.5
    told.arrives(50)
    chunks, tables = (np.array([*rows, *rows]), np.ones(4, np.int64), np.full(4, 3.0)), told.d.parts.barriers.tables()
    told.d.now_s = 3.0
    assert count(*chunks, 0, 4, -1, tables) == 2 and tables.ended[0] == 0
    told.d.parts.barriers.stepped()
    one_by_one(told, rows, [1, 1], 3.0)
    assert tables.ended[0] == -1 and told.d.rows.columns.arrays.produced[rows].tolist() == [4, 4]


def test_the_log_has_every_chunk():
    records = []
    told, rows = fleet(1, 4, records.append)
    for step in range(3):
        one_by_one(told, rows, [1, 2, 1, 1], 1.0 + step)
    told.d.flush()
    chunks = [record for record in records if isinstance(record, Chunks)]
    assert [row for one in chunks for row in one.rows] == rows * 3
    assert chunks[-1].tokens[:4] == [1, 2, 1, 1]
