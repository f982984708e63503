"""Rounds in portions: slots, the pool's window, predictions by themselves; and where a failed request goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.told import Story

from evenstep.compiled import as_plain
from evenstep.dispatch import events as ev
from evenstep.dispatch.columns import Columns
from evenstep.dispatch.commands import Fail, Reject, SendDecode
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.requests.rows import RequestColumns
from evenstep.dispatch.rounds import showing


def sent(commands):
    return [c.request for c in commands if isinstance(c, SendDecode)]


def test_a_round_offers_no_more_slots_than_it_may_and_the_next_one_follows_after_the_reads():
    story = Story("fcfs", round_slots=3)
    for name in "ab":
        story.worker(name, slots=4)
    for request in range(7):
        story.arrives(request)
    assert sent(story.tick()) == [0, 1, 2]
    assert story.d.due and story.wake_s == 0.0
    assert sent(story.tick()) == [3, 4, 5]
    assert sent(story.tick()) == [6] and not story.d.due


def test_a_round_looks_at_the_oldest_only():
    story = Story("fcfs", pool_window=2)
    story.worker("a", slots=9)
    for request in range(5):
        story.arrives(request)
    assert [sent(story.tick()) for _ in range(3)] == [[0, 1], [2, 3], [4]]
    assert not story.d.due


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, 15),
        ({"window_per_slot": 2.5}, 50),
        ({"pool_window": 12}, 12),
        ({"window_per_slot": 0.1}, 8),
        ({"window_per_slot": 0}, 60),
        ({"window_per_slot": 0, "pool_window": 0}, 60),
        ({"pool_window": 0, "window_per_slot": 2.0}, 40),
    ],
)
def test_a_small_fleet_looks_at_as_many_as_its_slots_call_for(settings, shown):
    log = []
    story = Story("fcfs", log=log.append, **settings)
    for name in "ab":
        story.worker(name, slots=10)
    for request in range(60):
        story.arrives(request)
    story.tick()
    (found,) = [record for record in log if isinstance(record, Round)]
    assert found.waiting == shown


def test_a_class_does_not_keep_another_one_out_of_the_window():
    story = Story("fcfs", pool_window=4)
    story.worker("a", slots=1)
    for request in range(9):
        story.arrives(request, request_class=0 if request < 7 else 1)
    seen = story.d.rows.columns.arrays.request_class
    story.tick()
    assert seen[story.d.parts.deciding.packed.waiting[:4]].tolist() == [0, 0, 1, 1]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.data())
def test_a_window_shows_as_many_as_it_may_oldest_first_and_an_even_share_of_each_class(classes, data):
    most = data.draw(st.integers(1, len(classes) - 1))
    rows, shown = Columns(RequestColumns, len(classes)).arrays, np.empty(most, np.int64)
    rows.request_class[:] = classes
    as_plain(showing.window)(rows, np.arange(len(classes)), most, np.zeros(4, np.int64), shown)
    found = shown.tolist()
    assert found == sorted(set(found)) and len(found) == most
    for c in set(classes):
        of_class = [place for place, its in enumerate(classes) if its == c]
        mine = [place for place in found if classes[place] == c]
        assert mine == of_class[: len(mine)]
        others = max(sum(classes[place] == d for place in found) for d in set(classes))
        assert len(mine) == len(of_class) or len(mine) >= others - 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.data())
def test_slots_are_taken_back_from_those_with_most(free, data):
    total = sum(free)
    most = data.draw(st.integers(0, max(0, total - 1)))
    left = np.array(free)
    order = np.array(data.draw(st.permutations(range(len(free)))))
    as_plain(showing.offer)(left, most, order)
    assert left.sum() == min(most, total) and (left <= free).all() and (left >= 0).all()
    cut = [a for a, b in zip(left.tolist(), free, strict=True) if a < b]
    assert not cut or left.max() - min(cut) <= 1


def test_many_predictions_are_made_before_the_round():
    story = Story("br-h:horizon=4", predictor="survival", ttl_s=1e9, pool_limit=1000)
    story.worker("a", slots=100)
    told = []
    for request in range(101):
        story.arrives(request)
    while story.d.due:
        told += story.tick()
    assert len(sent(told)) == 100
    for command in told:
        story.chunk(command.row)
    story.finishes(told[0])
    assert story.tick() == [] and story.d.due  # the completion was learned
    assert story.d.snapshot()["predictions"]["predictions"] == 0
    assert story.tick() == [] and story.d.due  # 99 newcomers were asked about
    assert story.d.snapshot()["predictions"]["predictions"] == 99
    assert sent(story.tick()) == [100] and not story.d.due


@pytest.mark.slow
def test_very_many_predictions_are_made_in_parts_and_come_to_the_same():
    story = Story("br-h:horizon=4", predictor="survival", ttl_s=1e9, pool_limit=1000)
    story.worker("a", slots=700)
    story.worker("b", slots=700)
    rows = []
    for request in range(600):
        story.arrives(request, 10 + request)
    while story.d.due:
        rows += [c.row for c in story.tick() if isinstance(c, SendDecode)]
    for row in rows:
        story.chunk(row)
    story.arrives(600)
    asked = []
    while not (told := sent(story.tick())):
        assert story.d.due
        asked.append(story.d.snapshot()["predictions"]["predictions"])
    assert asked == [128, 256, 384, 512, 600] and told == [600]
    ahead = story.d.parts.deciding.ahead
    kept = ahead.projections.copy()
    ahead.forget()
    assert (ahead.project(story.d.rows, story.d.mirror) == kept).all()


def test_a_predictor_that_fails_before_a_round_is_a_reason_of_that_round():
    story = Story("br-h:horizon=4", predictor="survival", ttl_s=1e9, pool_limit=1000)
    story.worker("a", slots=100)
    told = []
    for request in range(101):
        story.arrives(request)
    while story.d.due:
        told += story.tick()
    for command in told:
        story.chunk(command.row)
    story.d.parts.deciding.ahead.gate.predictor = None
    story.finishes(told[0])
    assert story.tick() == []
    assert sent(story.tick()) == [100]
    assert story.d.snapshot()["fallback_total"] == {"predictor": 1}


@pytest.mark.parametrize("kind", ["connect", "stream", "stall"])
def test_where_a_barrier_group_is_all_there_is_its_loss_ends_its_requests(kind):
    story = Story(backoff_s=0.0)
    for name in "ab":
        story.worker(name, group="one")
    first, second = story.sent(1), story.sent(2)
    assert story.fails(first, kind)[-1] == Reject(1, 502, "failed")
    story.chunk(second.row)
    assert story.fails(second, kind)[-1] == Fail(2, "failed")


def test_an_error_status_is_one_worker_s_and_a_peer_may_answer():
    story = Story(backoff_s=0.0)
    for name in "ab":
        story.worker(name, group="one")
    story.fails(story.sent(1), "status")
    assert [c.worker for c in story.tick()] == ["b"]


def test_a_request_that_failed_is_not_sent_where_its_kv_does_not_fit():
    story = Story(backoff_s=0.0, kv_reserve=0.0)
    story.worker("a", slots=9, kv_tokens=100)
    story.worker("b", slots=9, kv_tokens=100)
    first = story.sent(1, prompt_tokens=60)
    second = story.sent(2, prompt_tokens=90)
    assert (first.worker, second.worker) == ("a", "b")
    story.fails(first, "status")
    assert sent(story.tick()) == []
    story.finishes(second)
    assert [c.worker for c in story.tick()] == ["b"]


def test_pool_bypass_in_portions_goes_on_by_itself():
    story = Story("br-0:bypass=true", round_slots=2, bypass_margin=0)
    story.worker("a", slots=8, heard=False)
    for request in range(5):
        story.arrives(request)
    told = sent(story.sampled("a"))
    assert told == [0, 1] and story.d.due
    assert sent(story.tick()) == [2, 3] and sent(story.tick()) == [4]
    assert not story.d.due  # three slots were not offered, and no request waits
    story.tell(ev.Tick)
    assert not story.d.due


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_the_lightest_come_first_and_equals_stay_in_order(loads):
    workers = Columns(WorkerColumns, len(loads)).arrays
    workers.load[:], workers.sent_load[:] = zip(*loads, strict=True)
    order = np.empty(len(loads), np.int64)
    as_plain(showing.lightest_first)(workers, order)
    assert order.tolist() == np.argsort(workers.load + workers.sent_load, kind="stable").tolist()


def test_a_request_goes_past_the_worker_it_failed_on_though_the_round_offers_no_other():
    story = Story(round_slots=1, backoff_s=0.0)
    story.worker("a")
    story.worker("b")
    first = story.sent(1)
    assert first.worker == "a"
    story.fails(first, "status")
    assert [c.worker for c in story.tick()] == ["b"]
