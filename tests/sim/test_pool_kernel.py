"""The waiting pool and the heap of requests to come, against sorted lists."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import put, state

from evenstep.compiled import as_plain, column, cut, one, rows
from evenstep.request import Trace
from evenstep.sim.cluster import pool as pool_kernel
from evenstep.sim.cluster.model import Carried, Coming, Now

push, take_out = as_plain(pool_kernel.push), as_plain(pool_kernel.take_out)
heap_push, heap_pop = as_plain(pool_kernel.heap_push), as_plain(pool_kernel.heap_pop)
ONES = np.ones(3, np.int64)


class Pool:
    """A pool with room for `room` requests."""

    def __init__(self, room: int = 8, **columns) -> None:
        run = state(Trace(ONES, ONES, **columns)).run
        windows = {name: window[..., :room] for name, window in run.pool._asdict().items()}
        self.now, self.requests, self.pool = run.now, run.requests, run.pool._replace(**windows)

    def push(self, row: int, since: float) -> None:
        push(self.now, self.pool, self.requests, row, 10.0 * row, since)

    def send(self, *places: int) -> None:
        self.pool.worker[list(places)] = 0
        take_out(self.pool, self.now.first, len(places), max(places))
        self.now.first += len(places)
        self.now.waiting -= len(places)

    @property
    def here(self) -> slice:
        return slice(self.now.first, self.now.first + self.now.waiting)

    @property
    def rows(self) -> list[int]:
        return self.pool.id[self.here].tolist()


events = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=40)


@given(events)
def test_requests_stand_by_time_then_row_however_they_come_and_go(events):
    pool, model = Pool(), []
    for row, (since, share) in enumerate(events):
        if len(model) == 8:
            places = sorted({int(share * 7), 0})
            pool.send(*places)
            model = [entry for i, entry in enumerate(model) if i not in places]
        pool.push(row, float(since))
        model = sorted([*model, (float(since), row)])
        assert pool.rows == [row for _, row in model]
        assert pool.pool.since_s[pool.here].tolist() == [since for since, _ in model]
        assert pool.pool.load[pool.here].tolist() == [10.0 * row for _, row in model]
        assert (pool.pool.worker == -1).all()


def test_a_pool_at_its_end_moves_to_the_front():
    pool = Pool(room=3)
    for row in range(3):
        pool.push(row, 0.0)
    pool.send(0, 1)
    assert pool.now.first == 2
    pool.push(3, 0.0)
    assert pool.now.first == 0
    assert pool.rows == [2, 3]


def test_class_and_key_come_from_the_trace_else_the_key_is_the_row():
    pool, bare = Pool(request_class=np.array([0, 0, 7]), prompt_key=np.array([1, 1, 5])), Pool()
    pool.push(2, 0.0)
    bare.push(2, 0.0)
    assert (pool.pool.request_class[0], pool.pool.key[0]) == (7, 5)
    assert (bare.pool.request_class[0], bare.pool.key[0]) == (0, 2)


@given(entries=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_the_heap_gives_the_earliest_first_and_the_lowest_key_among_equals(entries):
    coming, size = rows(Coming, 64), 0
    model: list[tuple[float, int]] = []
    for key, (time, pops) in enumerate(entries):
        size = heap_push(coming, size, float(time), 100 - key)
        heapq.heappush(model, (float(time), 100 - key))
        if pops:
            size = heap_pop(coming, size)
            heapq.heappop(model)
        assert size == len(model)
        if model:
            assert (coming[0].time_s, coming[0].key) == model[0]


def test_what_a_restarted_request_carries_is_found_and_forgotten():
    now, carried = one(Now), rows(Carried, 3)
    now.carried = 3
    for entry, row, admitted_s in zip(carried, (4, 9, 6), (0.1, 0.3, 0.5), strict=True):
        put(entry, row=row, done=row + 1, restarts=2, admitted_s=admitted_s, first_token_s=2 * admitted_s)
    place = as_plain(pool_kernel.carried_at)
    assert [place(now, carried, row) for row in (4, 9, 6, 5)] == [0, 1, 2, -1]
    as_plain(pool_kernel.drop_carried)(now, carried, 0)
    assert [place(now, carried, row) for row in (4, 9, 6)] == [-1, 1, 0]
    first = {name: column(cut(carried, 0, 1), name).tolist() for name in Carried.__annotations__}
    assert first == {"row": [6], "done": [7], "restarts": [2], "admitted_s": [0.5], "first_token_s": [1.0]}
