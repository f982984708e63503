"""The waiting pool and the heap of requests to come, against sorted lists."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import plainly, scalars

from evenstep.routing.view import CLASS, ID, KEY, SINCE_S, WAITING_LOAD
from evenstep.sim import cluster_layout as at
from evenstep.sim import pool_kernel

push, take_out = plainly(pool_kernel.push), plainly(pool_kernel.take_out)
NO_COLUMNS = np.zeros((0, 0), np.int64)


class Pool:
    """A pool with room for `room` requests."""

    def __init__(self, room: int = 8, columns=NO_COLUMNS) -> None:
        self.sc, self.columns = scalars(), columns
        self.ints, self.floats = np.zeros((3, room), np.int64), np.zeros((3, room))
        self.worker = np.full(room, -1)

    def push(self, row: int, since: float) -> None:
        push(self.sc, self.ints, self.floats, self.columns, row, 10.0 * row, since)

    def send(self, *places: int) -> None:
        self.worker[list(places)] = 0
        take_out(self.ints, self.floats, self.worker, self.sc[at.FIRST], len(places), max(places))
        self.sc[at.FIRST] += len(places)
        self.sc[at.WAITING] -= len(places)

    @property
    def here(self) -> slice:
        return slice(self.sc[at.FIRST], self.sc[at.FIRST] + self.sc[at.WAITING])

    @property
    def rows(self) -> list[int]:
        return self.ints[ID, self.here].tolist()


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
        assert pool.floats[SINCE_S, pool.here].tolist() == [since for since, _ in model]
        assert pool.floats[WAITING_LOAD, pool.here].tolist() == [10.0 * row for _, row in model]
        assert (pool.worker == -1).all()


def test_a_pool_at_its_end_moves_to_the_front():
    pool = Pool(room=3)
    for row in range(3):
        pool.push(row, 0.0)
    pool.send(0, 1)
    assert pool.sc[at.FIRST] == 2
    pool.push(3, 0.0)
    assert pool.sc[at.FIRST] == 0
    assert pool.rows == [2, 3]


def test_class_and_key_come_from_the_columns_else_the_key_is_the_row():
    columns = np.array([[0, 0, 7], [0, 0, 5]])
    pool, bare = Pool(columns=columns), Pool()
    pool.push(2, 0.0)
    bare.push(2, 0.0)
    assert (pool.ints[CLASS, 0], pool.ints[KEY, 0]) == (7, 5)
    assert (bare.ints[CLASS, 0], bare.ints[KEY, 0]) == (0, 2)


@pytest.mark.parametrize("form", [lambda kernel: kernel, plainly], ids=["compiled", "plain"])
@given(entries=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_the_heap_gives_the_earliest_first_and_the_lowest_key_among_equals(form, entries):
    heap_push, heap_pop = form(pool_kernel.heap_push), form(pool_kernel.heap_pop)
    sc, times, keys = scalars(), np.zeros(64), np.zeros(64, np.int64)
    model: list[tuple[float, int]] = []
    for key, (time, pops) in enumerate(entries):
        heap_push(sc, times, keys, float(time), 100 - key)
        heapq.heappush(model, (float(time), 100 - key))
        if pops:
            heap_pop(sc, times, keys)
            heapq.heappop(model)
        assert sc[at.HEAP_SIZE] == len(model)
        if model:
            assert (times[0], keys[0]) == model[0]


def test_what_a_restarted_request_carries_is_found_and_forgotten():
    sc = scalars(carried=3)
    ints, floats = np.array([[4, 1, 1], [9, 2, 1], [6, 3, 2]]), np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    assert [pool_kernel.carried(sc, ints, row) for row in (4, 9, 6, 5)] == [0, 1, 2, -1]
    pool_kernel.drop_carry(sc, ints, floats, 0)
    assert [pool_kernel.carried(sc, ints, row) for row in (4, 9, 6)] == [-1, 1, 0]
    assert ints[0].tolist() == [6, 3, 2]
    assert floats[0].tolist() == [0.5, 0.6]
