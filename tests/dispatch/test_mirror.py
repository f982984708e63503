"""The mirror: slots, foreign load, what is unknown."""

from __future__ import annotations

import math

from evenstep.dispatch.mirror import LOAD, RUNNING, SENT, Mirror
from evenstep.dispatch.settings import WorkerSpec


def mirror(*specs):
    found = Mirror()
    for spec in specs:
        found.add(spec, 0.0)
    return found


def test_unknown_is_full():
    found = mirror(WorkerSpec(name="a", slots=4), WorkerSpec(name="b", slots=4, scraped=False))
    assert [found.free(g) for g in range(2)] == [0, 4]
    found.sampled(0, 0, 0.0, 0, 1.0)
    assert [found.free(g) for g in range(2)] == [4, 4]


def test_only_what_two_samples_in_a_row_show_is_foreign():
    found = mirror(WorkerSpec(name="a", slots=4, kv_tokens=100))
    found.sampled(0, 0, 0.0, 0, 0.0)
    assert found.sampled(0, 3, 0.5, 0, 1.0) == (False, False)
    assert found.free(0) == 4
    assert found.sampled(0, 2, 0.4, 0, 2.0) == (True, False)
    assert found.free(0) == 1 and found.workers[0].foreign_load == 50.0  # of the two the larger
    found.sampled(0, 2, 0.4, 0, 3.0)
    assert found.free(0) == 2 and found.workers[0].foreign_load == 40.0
    found.sampled(0, 0, 0.0, 0, 4.0)
    assert found.free(0) == 4 and found.workers[0].foreign_load == 0.0


def test_what_came_or_went_while_a_sample_was_read_is_neither_foreign_nor_lacking():
    found = mirror(WorkerSpec(name="a", slots=9))
    found.sampled(0, 0, 0.0, 0, 0.0)
    found.takes(0, 4)
    for now_s, theirs, came, went in (
        (1.0, 4, 0, 3),
        (2.0, 4, 3, 0),
        (3.0, 1, 4, 4),
        (4.0, 7, 3, 3),
        (5.0, 3, 1, 1),
    ):
        found.sampling(0)
        found.takes(0, came)
        found.lets_go(0, SENT, went)
        assert found.sampled(0, theirs, 0.0, 0, now_s) == (False, False), now_s
        assert found.workers[0].foreign == 0 == found.workers[0].divergences
    for now_s, theirs, told in ((6.0, 6, (False, False)), (7.0, 6, (True, False)), (8.0, 3, (False, False))):
        found.sampling(0)
        found.takes(0, 1)
        found.lets_go(0, SENT, 1)
        assert found.sampled(0, theirs, 0.0, 0, now_s) == told
    for now_s, told in ((9.0, (False, False)), (10.0, (False, True))):
        found.sampling(0)
        assert found.sampled(0, 3, 0.0, 0, now_s) == told


def test_the_first_sample_counts_alone():
    found = mirror(WorkerSpec(name="a", slots=4))
    assert found.sampled(0, 4, 0.0, 0, 0.0) == (True, False)
    assert found.free(0) == 0


def test_capacity_is_the_configured_one_else_the_engine_s_else_unlimited():
    found = mirror(WorkerSpec(name="a", kv_tokens=7), WorkerSpec(name="b"), WorkerSpec(name="c"))
    for g in range(2):
        found.sampled(g, 0, 0.0, 99, 0.0)
    assert [worker.capacity for worker in found.workers] == [7.0, 99.0, math.inf]


def test_a_worker_that_goes_takes_its_place_with_it():
    found = mirror(
        *(WorkerSpec(name=name, group=group) for name, group in (("a", "x"), ("b", ""), ("c", "x")))
    )
    assert found.group == [0, 1, 0] and found.peers(0) == ["a", "c"] and found.peers(1) == ["b"]
    found.i[RUNNING][2], found.f[LOAD][2] = 2, 9.0
    found.remove(1)
    assert found.place == {"a": 0, "c": 1} and found.group == [0, 0]
    assert found.i[RUNNING][1] == 2 and found.f[LOAD][1] == 9.0


def test_a_state_ages_until_the_next_sample():
    found = mirror(WorkerSpec(name="a"), WorkerSpec(name="b", scraped=False))
    found.sampled(0, 0, 0.0, 0, 5.0)
    assert found.state_age_s(7.5) == 2.5
