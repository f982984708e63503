"""Single decisions: what the policy sees, and who decides when it cannot."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Notice, SendDecode
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.rounds.policy_call import Packed
from evenstep.routing import view as at
from evenstep.routing.view import RoutingDecision, broken_rule


def in_turn(*routes):
    """A route that answers by each of these once, in order."""
    left = list(routes)

    def route(view):
        return left.pop(0)(view)

    return route


class Guest:
    """A policy in the door's place."""

    def __init__(self, route):
        self.route, self.views = route, []


def with_guest(route, **options):
    story = Story(**options)
    for name in "ab":
        story.worker(name, slots=9, kv_tokens=1000)
    door = story.d.parts.deciding.call
    door.policy, door._kernel = Guest(route), None
    return story


def all_to_b(view):
    return RoutingDecision(np.ones(view.waiting_id.size, np.int64))


def sends(story, request):
    story.arrives(request)
    return [c.worker for c in story.tick() if isinstance(c, SendDecode)]


def test_a_policy_sees_what_runs_was_sent_is_foreign_and_is_kept_free():
    seen = []
    story = with_guest(lambda view: seen.append(copy.deepcopy(view)) or all_to_b(view), kv_reserve=5.0)
    story.arrives(1, 10, session=7, request_class=3, expected_tokens=4)
    (sent,) = story.tick()
    story.chunk(sent.row, 2)
    story.arrives(2, 20, key=8)
    story.tick()
    story.sampled("b", running=3, kv_used=0.1)  # 100 tokens, of which 32 are ours
    story.sampled("b", running=3, kv_used=0.1)
    story.arrives(3, 30)
    story.tick(1.0)
    first, last = seen[0], seen[-1]
    assert (first.waiting_key.tolist(), first.waiting_class.tolist()) == ([7], [3])
    assert first.waiting_steps.tolist() == [4.0] and np.isnan(last.waiting_steps).all()
    assert seen[1].waiting_key.tolist() == [8] and last.waiting_key.tolist() == [3]
    assert last.running.tolist() == [0, 2] and last.queued.tolist() == [0, 1]
    assert last.load.tolist() == [0, 12 + 68] and last.queued_load.tolist() == [0, 20]
    assert last.free_slots.tolist() == [9, 3]  # half of the 6 is left to whoever sent the other
    assert last.kv_free.tolist() == [1000, 1000 - 100 - 5 * 3]


def test_a_reload_that_moves_classes_moves_the_requests_that_wait():
    seen = []
    story = with_guest(lambda view: seen.append(view.waiting_class.tolist()) or all_to_b(view))
    for request in range(4):
        story.arrives(request, request_class=request)
    story.tell(ev.Reloaded, classes=(3, 0, 1))  # class 2 is gone
    story.tick()
    assert seen == [[0, 3, 0, 1]]


@pytest.mark.parametrize(
    ("reason", "route"),
    [
        ("raised", lambda view: 1 / 0),
        ("contract", lambda view: RoutingDecision(np.full(view.waiting_id.size, 5, np.int64))),
        ("contract", lambda view: RoutingDecision(np.ones(1 + view.waiting_id.size, np.int64))),
    ],
)
def test_a_policy_that_breaks_is_replaced_by_least_load_for_a_while(reason, route):
    story = with_guest(in_turn(route, all_to_b), policy_cooldown_s=2.0)
    assert sends(story, 1) == ["a"]  # by least load
    story.now_s = 1.9
    assert sends(story, 2) + sends(story, 3) == ["b", "a"]
    last = story.d.snapshot()["fallback_last"]
    assert last["reason"] == "cooling" and last["why"].startswith(f"cooling since the last fault ({reason}: ")
    story.now_s = 2.0
    assert sends(story, 4) == ["b"]  # two seconds later by the policy
    assert story.d.snapshot()["fallback_total"] == {reason: 1, "cooling": 2}


def test_a_policy_that_raises_three_times_in_a_row_is_off_until_reload():
    story = with_guest(lambda view: 1 / 0, policy_cooldown_s=1.5)
    told = []
    for request in range(12):
        story.now_s = float(request)
        story.arrives(request)
        told += [(c.kind, c.text) for c in story.tick() if isinstance(c, Notice)]
    assert [kind for kind, _ in told] == [
        "fallback",
        "fallback",
        "policy-off",
        "fallback",
    ]  # each reason once a minute
    assert "ZeroDivisionError" in told[0][1] and "ZeroDivisionError" in told[2][1]
    counted = story.d.snapshot()["fallback_total"]
    assert counted["raised"] == 3 and counted["off"] > 0 and story.d.snapshot()["policy_is_off"]
    story.tell(ev.Reloaded, policy="jsq")
    assert not story.d.snapshot()["policy_is_off"]


def test_time_that_other_processes_took_is_not_in_the_budget():
    wall, processor = iter(range(0, 10**6, 100)), iter(x / 1000 for x in range(100))
    options = {"stopwatch": lambda: next(wall), "processor": lambda: next(processor)}
    story = with_guest(all_to_b, budget_ms=1.5, **options)
    assert sends(story, 1) == ["b"]
    story = with_guest(all_to_b, budget_ms=0.5, **options)
    assert sends(story, 1) == ["a"]
    why = story.d.snapshot()["fallback_last"]["why"]
    assert why == "budget: 1.0 ms of processor time for one decision; budget_ms is 0.5"


def test_a_policy_over_its_budget_is_not_heard():
    ticks = iter(range(100))
    story = with_guest(all_to_b, budget_ms=500.0, stopwatch=lambda: next(ticks))
    assert sends(story, 1) == ["a"]
    assert story.d.snapshot()["fallback_total"] == {"budget": 1}
    assert story.d.snapshot()["decision_seconds"]["route"]["count"] == 1


def test_late_news_of_a_worker_that_only_we_send_to_change_nothing():
    story = with_guest(all_to_b, stale_s=2.0)
    for request in range(5):
        story.now_s = 100.0 * request
        story.finishes(story.sent(request))
    assert story.d.snapshot()["fallback_total"] == {} and story.d.snapshot()["fallback_last"] is None


def test_stale_news_of_a_worker_that_others_send_to_are_a_reason_for_as_long_as_they_are_stale():
    log = []
    story = with_guest(all_to_b, stale_s=2.0, log=log.append)
    for _ in range(2):
        story.sampled("b", running=1)
    story.now_s = 1.9
    assert sends(story, 1) == ["b"]
    story.now_s = 2.5
    told = story.arrives(2) + story.tick()
    assert [c.worker for c in told if isinstance(c, SendDecode)] == ["a"]
    why = "stale: b runs requests of others and was last read 2.5 s ago; stale_s is 2"
    assert [c.text for c in told if isinstance(c, Notice)] == [
        f"least load decides instead of {story.d.parts.deciding.call.text}: {why}"
    ]
    assert story.d.snapshot()["fallback_last"] == {"decision": 1, "reason": "stale", "why": why, "now_s": 2.5}
    assert [(r.fallback, r.why) for r in log if isinstance(r, Round)] == [("", ""), ("stale", why)]
    for _ in range(2):
        story.sampled("b", running=2)
    assert sends(story, 3) == ["b"]  # at once: nothing cools down
    assert story.d.snapshot()["fallback_total"] == {"stale": 1}


def test_a_predictor_that_raises_is_a_reason_too():
    story = Story("br-h:horizon=4")
    story.worker("a", slots=9)
    story.chunk(story.sent(1).row)
    story.d.parts.deciding.ahead.gate.predictor = Guest(None)
    assert sends(story, 2) == ["a"]
    assert story.d.snapshot()["fallback_total"] == {"predictor": 1}


def test_a_request_that_failed_there_goes_to_the_lightest_other_worker():
    story = with_guest(all_to_b, backoff_s=0.0)
    story.worker("c", slots=9)
    sent = story.sent(1)
    assert sent.worker == "b"
    story.fails(sent, "status")
    assert [c.worker for c in story.tick()] == ["a"]


def test_a_policy_that_holds_is_asked_again():
    holds = lambda view: RoutingDecision(np.full(view.waiting_id.size, -1, np.int64))  # noqa: E731
    story = with_guest(in_turn(all_to_b, holds, holds, all_to_b))
    assert sends(story, 0) + sends(story, 1) == ["b", "a"]  # an idle worker is given what is held
    assert sends(story, 2) == []
    assert story.wake_s == pytest.approx(0.05)
    assert [c.worker for c in story.tick(0.05)] == ["b"]


def test_policies_that_look_at_caches_are_shown_what_was_sent_where():
    story = Story("prefix-affinity")
    for name in "ab":
        story.worker(name, slots=9)
    sent = story.sent(1, prompt_tokens=100, blocks=(1, 2))
    assert story.sent(2, prompt_tokens=100, blocks=(1, 2)).worker == sent.worker
    assert story.d.snapshot()["prefix_hit_tokens_total"] == 100


@given(st.data(), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(st.integers(1, 9), max_size=8))
def test_an_answer_is_held_to_the_contract_as_broken_rule_holds_it(data, free, loads):
    kv_free = data.draw(st.lists(st.integers(0, 20), min_size=len(free), max_size=len(free)))
    answer = data.draw(
        st.lists(st.integers(-2, len(free)), min_size=len(loads), max_size=len(loads)).map(
            lambda places: np.array(places, np.int64)
        )
    )
    packed = Packed(len(free), 0)
    packed.room_for(len(loads))
    packed.workers_i[at.FREE_SLOTS], packed.workers_f[at.KV_FREE] = free, kv_free
    packed.waiting_f[at.WAITING_LOAD, : len(loads)] = loads
    packed.shown, packed.worker[: len(loads)] = len(loads), answer
    view = packed.view(np.zeros(0, np.int64))
    assert packed.keeps_contract() == (not broken_rule(view, RoutingDecision(answer)))
