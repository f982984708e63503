"""The mirror: slots, foreign load, what is unknown."""

from __future__ import annotations

import math

import pytest

from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.settings import WorkerSpec


def mirror(*specs):
    found = Mirror()
    for spec in specs:
        found.add(spec, 0.0)
    return found


def send(found, requests):
    """Requests are sent to the first worker: the dispatcher writes that into the columns."""
    found.at.sent[0] += requests
    found.at.came[0] += requests
    found.slots_changed()


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
    assert found.workers[0].foreign == 2 and found.workers[0].foreign_load == 40.0
    for now_s in (4.0, 5.0):
        found.sampled(0, 0, 0.0, 0, now_s)
    assert found.workers[0].foreign == 0 and found.workers[0].foreign_load == 0.0


def test_of_the_free_slots_of_a_shared_worker_each_gateway_takes_its_part_until_the_next_sample():
    found = mirror(WorkerSpec(name="a", slots=16))
    found.sampled(0, 0, 0.0, 0, 0.0)
    assert found.free(0) == 16  # others were not seen
    for now_s in (1.0, 2.0):
        found.sampled(0, 4, 0.0, 0, now_s)
    assert found.free(0) == 6  # of 12
    send(found, 6)
    assert found.free(0) == 0
    found.lets_go(0, 2, ran=False)
    assert found.free(0) == 2  # our own, while no sample shows that we left them
    found.sampled(0, 8, 0.0, 0, 3.0)
    assert found.free(0) == 4  # 8 are free, of which 2 were ours
    send(found, 3)
    found.sampled(0, 15, 0.0, 0, 4.0)
    assert found.free(0) == 1  # below an even share the last one is taken


def test_who_has_more_than_an_even_share_of_a_full_worker_makes_room():
    found = mirror(WorkerSpec(name="a", slots=32))
    found.sampled(0, 0, 0.0, 0, 0.0)
    send(found, 30)
    for now_s, total in ((1.0, 32), (2.0, 32)):
        found.sampled(0, total, 0.0, 0, now_s)
    found.lets_go(0, 4, ran=False)
    assert found.free(0) == 2  # 2 of the 30 are given up
    send(found, 2)
    for now_s in (3.0, 4.0):
        found.sampled(0, 30, 0.0, 0, now_s)
    assert found.free(0) == 1  # of the 2 that are free one, half of them
    found.lets_go(0, 27, ran=False)
    for now_s in (5.0, 6.0):
        found.sampled(0, 32, 0.0, 0, now_s)
    assert found.free(0) == 0  # the last one that we have stays ours, and no more


def test_a_worker_is_shared_for_a_minute_after_the_last_request_of_others():
    found = mirror(WorkerSpec(name="a", slots=16))
    for now_s in (0.0, 1.0):
        found.sampled(0, 4, 0.0, 0, now_s)
    for now_s, free in ((2.0, 6), (3.0, 8), (60.9, 8), (61.0, 16)):
        found.sampled(0, 0, 0.0, 0, now_s)
        assert found.free(0) == free, now_s


def test_a_number_of_gateways_is_believed_before_any_of_them_is_seen():
    found = Mirror(gateways=4)
    found.add(WorkerSpec(name="a", slots=16), 0.0)
    found.add(WorkerSpec(name="b", slots=16, scraped=False), 0.0)
    found.sampled(0, 0, 0.0, 0, 0.0)
    assert [found.free(g) for g in range(2)] == [4, 16]
    found.go_by(2, 0)
    assert found.free(0) == 8


def test_foreign_memory_is_taken_to_grow_until_the_next_sample_as_until_this_one():
    found = mirror(WorkerSpec(name="a", slots=9, kv_tokens=100))
    for now_s, used, expected in ((0.0, 0.2, 20.0), (1.0, 0.3, 40.0), (2.0, 0.5, 70.0), (3.0, 0.4, 50.0)):
        found.sampled(0, 2, used, 0, now_s)
        assert found.workers[0].foreign_load == pytest.approx(expected)


def test_what_came_or_went_while_a_sample_was_read_is_neither_foreign_nor_lacking():
    found = mirror(WorkerSpec(name="a", slots=9))
    found.sampled(0, 0, 0.0, 0, 0.0)
    send(found, 4)
    for now_s, theirs, came, went in (
        (1.0, 4, 0, 3),
        (2.0, 4, 3, 0),
        (3.0, 1, 4, 4),
        (4.0, 7, 3, 3),
        (5.0, 3, 1, 1),
    ):
        found.sampling(0)
        send(found, came)
        found.lets_go(0, went, ran=False)
        assert found.sampled(0, theirs, 0.0, 0, now_s) == (False, False), now_s
        assert found.workers[0].foreign == 0 == found.workers[0].divergences
    for now_s, theirs, told in ((6.0, 6, (False, False)), (7.0, 6, (True, False)), (8.0, 3, (False, False))):
        found.sampling(0)
        send(found, 1)
        found.lets_go(0, 1, ran=False)
        assert found.sampled(0, theirs, 0.0, 0, now_s) == told
    for now_s, told in ((9.0, (False, False)), (10.0, (False, False)), (11.0, (False, True))):
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
    found = mirror(*(WorkerSpec(name=name, group=group) for name, group in (("a", "x"), ("b", ""), ("c", "x"))))
    assert found.group == [0, 1, 0] and found.peers(0) == ["a", "c"] and found.peers(1) == ["b"]
    found.at.running[2], found.at.load[2] = 2, 9.0
    found.remove(1)
    assert found.place == {"a": 0, "c": 1} and found.group == [0, 0]
    assert found.at.running[1] == 2 and found.at.load[1] == 9.0


def test_a_state_ages_where_others_were_seen_and_nowhere_else():
    found = mirror(WorkerSpec(name="a"), WorkerSpec(name="b"), WorkerSpec(name="c", scraped=False))
    for now_s in (4.0, 5.0):
        found.sampled(0, 0, 0.0, 0, now_s)
    assert found.state_age_s(1e6) == 0.0  # what our own requests do is known from their streams
    for now_s in (6.0, 7.0):
        found.sampled(1, 1, 0.0, 0, now_s)
    assert found.state_age_s(9.5) == 2.5
    assert found.oldest(9.5) == "b runs requests of others and was last read 2.5 s ago"


def test_ends_that_are_on_their_way_are_no_divergence_though_every_sample_lacks_one():
    found = mirror(WorkerSpec(name="a", slots=9))
    found.sampled(0, 0, 0.0, 0, 0.0)
    send(found, 4)
    for second in range(1, 30):
        found.sampling(0)
        assert found.sampled(0, 3, 0.0, 0, float(second)) == (False, False)
        found.lets_go(0, 1, ran=False)  # now its end is heard of, and another one goes there
        send(found, 1)
    assert found.workers[0].divergences == 0
    for second in range(30, 33):  # a request that the engine does not have
        found.sampling(0)
        found.sampled(0, 3, 0.0, 0, float(second))
    assert found.workers[0].divergences == 1


def test_a_group_is_open_while_one_of_its_workers_has_a_free_slot():
    specs = [WorkerSpec(name=name, slots=3, group="g" if name in "ac" else "", scraped=False) for name in "abc"]
    found = mirror(*specs)
    for g in range(3):
        found.at.running[g], found.at.sent[g] = 1, 1
        found.reserve(g, 1)
    assert found.open_groups() == []
    found.reserve(2, -1)
    assert found.open_groups() == [0]
    found.lets_go(1, 1, ran=False)
    assert found.open_groups() == [1, 0], "b is before c"
    found.remove(0)
    assert found.open_groups() == [0, 1] == found.group
    for left in ([0], []):
        found.remove(0)
        assert found.open_groups() == left
    assert found.slots == 0


def test_a_request_that_ended_while_a_shared_worker_was_read_may_be_of_others():
    found = mirror(WorkerSpec(name="a", slots=16))
    for now_s in (0.0, 1.0):
        found.sampled(0, 4, 0.0, 0, now_s)
    send(found, 4)
    found.sampling(0)
    found.lets_go(0, 3, ran=False)
    found.sampled(0, 8, 0.0, 0, 2.0)
    assert found.workers[0].foreign == 7, "one of the 8 is surely ours"


def test_memory_that_an_engine_keeps_without_requests_of_others_is_no_foreign_load():
    found = mirror(WorkerSpec(name="a", slots=4, kv_tokens=100))
    for now_s in range(3):
        found.sampled(0, 0, 0.4, 0, float(now_s))
    assert found.at.foreign_load[0] == 0.0


@pytest.mark.parametrize(("ours", "may_hold"), [(2, 1), (1, 1), (0, 0)])
def test_of_a_full_worker_a_gateway_gives_up_a_slot_each_time_but_its_last(ours, may_hold):
    found = mirror(WorkerSpec(name="a", slots=32))
    found.sampled(0, 0, 0.0, 0, 0.0)
    send(found, ours)
    for now_s in (1.0, 2.0):
        found.sampled(0, 32, 0.0, 0, now_s)
    assert found.at.free_at_most[0] == may_hold
