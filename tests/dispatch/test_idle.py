"""No worker stays idle while a request that fits it waits, whatever the policy answers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dispatch.idle_storm import Holds, IdleStorm
from tests.dispatch.told import Story

from evenstep.dispatch.commands import Notice, SendDecode
from evenstep.dispatch.log.file import LogFile, part_of
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.replay import replay
from evenstep.dispatch.rounds.deciding import Deciding
from evenstep.routing.view import RoutingDecision


def holding(workers=("a", "b"), kv_tokens=1000, **options):
    story = Story(**options)
    for name in workers:
        story.worker(name, slots=4, kv_tokens=kv_tokens)
    story.d.parts.deciding.call.policy, story.d.parts.deciding.call._kernel = Holds(), None
    return story


class AllToTheSecond:
    """A policy that sends everything to one worker."""

    def route(self, view):
        return RoutingDecision(np.ones(view.waiting_id.size, np.int64))


def sent(commands):
    return [(c.request, c.worker) for c in commands if isinstance(c, SendDecode)]


def test_least_load_sends_the_oldest_requests_that_fit_to_workers_that_run_nothing():
    log = []
    story = holding(log=log.append)
    for request in range(4):
        story.arrives(request)
    told = story.tick()
    assert sent(told) == [(0, "a"), (1, "b")]
    (notice,) = [c for c in told if isinstance(c, Notice)]
    assert (notice.kind, notice.about) == ("fallback", "held") and "runs nothing" in notice.text
    (found,) = [record for record in log if isinstance(record, Round)]
    assert (found.sent, found.fallback, found.waiting) == ({0: "a", 1: "b"}, "held", 4)
    assert story.d.snapshot()["fallback_total"] == {"held": 1}
    assert sent(story.tick(0.1)) == []  # both run something: the policy's word stands


def test_a_policy_that_held_is_asked_again_in_the_next_round():
    story = holding(policy_cooldown_s=50.0)
    story.arrives(0)
    assert sent(story.tick()) == [(0, "a")]
    story.d.parts.deciding.call.policy = AllToTheSecond()
    story.arrives(1)
    assert sent(story.tick()) == [(1, "b")]
    assert story.d.snapshot()["fallback_total"] == {"held": 1}


def test_a_request_that_does_not_fit_is_passed_over_and_holding_it_is_no_fault():
    story = holding()
    story.arrives(0)
    story.arrives(1)
    assert len(sent(story.tick())) == 2
    story.worker("c", slots=4, kv_tokens=500)
    story.arrives(2, 600)
    assert sent(story.tick(0.1)) == []
    assert story.d.snapshot()["fallback_total"] == {"held": 1}
    story.arrives(3, 400)
    assert sent(story.tick()) == [(3, "c")]


@pytest.mark.parametrize("settings", [{"pool_window": 2}, {"round_slots": 1}, {"pool_window": 1, "round_slots": 1}])
def test_requests_and_slots_that_the_round_does_not_look_at_count_too(settings):
    story = holding(("a", "b", "c"), kv_tokens=100, **settings)
    story.worker("d", slots=4, kv_tokens=5000)
    told = []
    for request, tokens in enumerate((900, 900, 900, 50, 50, 50)):
        story.arrives(request, tokens)
    told += story.tick()
    while story.d.due:
        told += story.tick()
    assert sorted(sent(told)) == [(0, "d"), (3, "a"), (4, "b"), (5, "c")]


def test_a_round_that_sends_a_request_it_does_not_look_at_has_not_held():
    story = holding(("a",), kv_tokens=100, pool_window=1)
    story.worker("d", slots=4, kv_tokens=5000)
    story.arrives(0, 900)
    assert sent(story.tick()) == [(0, "d")]
    story.arrives(1, 900)
    assert sent(story.tick()) == []
    story.arrives(2, 50)
    assert sent(story.tick()) == [(2, "a")]  # only request 1 was shown to the policy
    found = {one["outcome"]: one["value"] for one in story.d.snapshot()["decisions_total"]}
    assert found == {"fallback": 1, "held": 1, "admitted": 1}


def test_a_request_goes_to_no_worker_that_it_failed_on_and_keeps_it_from_no_other():
    story = holding(backoff_s=0.0, retries=5)
    story.arrives(0)
    (command,) = [c for c in story.tick() if isinstance(c, SendDecode)]
    assert command.worker == "a"
    story.arrives(1)
    assert sent(story.tick()) == [(1, "b")]
    story.fails(command, "status")
    assert sent(story.tick()) == []  # "a" is idle, and the request failed there
    story.arrives(2)
    assert sent(story.tick()) == [(2, "a")]


def test_a_request_that_may_not_go_where_the_policy_sends_it_goes_to_an_idle_worker_that_was_not_offered():
    story = Story("fcfs", round_slots=1, backoff_s=0.0, retries=5)
    for name in "ab":
        story.worker(name, slots=4, kv_tokens=1000)
    story.fails(story.sent(0), "status")  # on "a", the only one that the next round offers
    assert sent(story.tick()) == [(0, "b")]


def test_a_request_that_gathered_slots_of_an_ejected_worker_is_decided_about_at_once():
    story = Story("fcfs")
    story.worker("a", slots=3, kv_tokens=1000)
    story.sent(0)
    story.arrives(1, copies=3)
    assert sent(story.tick()) == []  # it holds two slots of "a", and waits for the third
    story.worker("b", slots=3, kv_tokens=1000)
    story.tick()
    story.d.lifecycle.eject("a")
    assert story.d.due and sent(story.tick()) == [(1, "b")]


def test_a_request_for_several_slots_that_a_full_worker_gives_none_goes_to_an_idle_one():
    story = Story("br-0:bypass=true")
    story.worker("a", slots=2, kv_tokens=1000)
    assert sent(story.arrives(0, copies=2)) == [(0, "a")]
    assert sent(story.arrives(1, copies=2)) == []  # the policy may send one request beyond the slots of "a", and this is two
    assert sent(story.worker("b", slots=2, kv_tokens=1000)) == [(1, "b")]


@pytest.mark.parametrize(
    "workers", [pytest.param(count, marks=() if count in (1, 2, 5) else pytest.mark.slow) for count in range(1, 9)]
)
@pytest.mark.parametrize("policy", ["best:horizon=4", "bf-io:horizon=4", "br-0", "br-h:horizon=6", "throttled", "holds"])
def test_no_request_waits_while_an_idle_worker_could_take_it(policy, workers):
    storm = IdleStorm(7 * workers, policy, workers)
    storm.run(300)
    assert storm.bound > 0


def test_a_storm_sees_a_request_that_waits_beside_an_idle_worker(monkeypatch):
    given = lambda self, pool, margin, reason, excluded: (self.packed.shown, reason)  # noqa: E731
    monkeypatch.setattr(Deciding, "_leave_no_worker_idle", given)
    with pytest.raises(AssertionError, match="waits while"):
        for seed in range(5):
            IdleStorm(seed, "holds", 2).run(300)


def test_what_a_storm_decided_replays(tmp_path):
    file = LogFile(tmp_path / "log.evlog", part_bytes=20_000)
    storm = IdleStorm(3, "holds", 4, log=file)
    storm.run(300)
    file.close()
    for part in range(file.part + 1):
        found = replay(part_of(tmp_path / "log.evlog", part))
        assert found.difference is None
    assert file.part > 0 and storm.dispatcher.snapshot()["fallback_total"].get("held", 0) > 0
