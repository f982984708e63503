"""The dispatcher as a whole: the simulator's decisions, rounds, limits, reloads."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.dispatch.batches import Batches, state
from tests.dispatch.engines import Barrier, saturated
from tests.dispatch.told import Story
from tests.strategies import examples

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Reject, SendDecode, WakeAt
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, TenantLimits
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster, simulate


def small_trace(requests: int, seed: int = 0) -> Trace:
    random = np.random.default_rng(seed)
    return Trace(
        prompt_tokens=np.floor(random.lognormal(5, 1, requests)).astype(np.int64) + 1,
        output_tokens=random.integers(1, 40, requests),
    )


@pytest.mark.parametrize(
    ("policy", "predictor"),
    [
        ("br-0", ""),
        ("jsq", ""),
        ("bf-io", ""),
        ("round-robin", ""),
        ("best", "memorised"),
        ("br-h:horizon=8", "survival"),
        ("br-h:horizon=8", "survival:refresh=literal,gate=0.2,refresh_every=3"),
    ],
)
def test_a_saturated_fleet_runs_exactly_as_in_the_simulator(policy, predictor):
    """The same policy objects on the same views: every request on the same worker in the same steps."""
    trace = small_trace(300)
    run = simulate(
        trace,
        names.build("routing", names.parse(policy)),
        cluster=Cluster(workers=4, slots=6, pool=16),
        step_time=Linear(overhead_s=0.0049, per_token_s=1.1e-7),
        predictor=names.build("predict", names.parse(predictor)) if predictor else None,
    )
    dispatcher = Dispatcher(policy, predictor=predictor, settings=Settings(ttl_s=1e9))
    fleet = Barrier(dispatcher, 4, 6, trace.prompt_tokens, trace.output_tokens)
    saturated(fleet, 300, 16, check=True)
    table = run.requests
    there = zip(table.worker.tolist(), table.admitted_step.tolist(), table.finished_step.tolist(), strict=True)
    assert [fleet.finished[r] for r in range(300)] == list(there)


def test_the_law_of_the_steps_is_found_again_from_the_chunks():
    trace = small_trace(400)
    fleet = Barrier(Dispatcher("jsq", settings=Settings(ttl_s=1e9)), 4, 6, trace.prompt_tokens, trace.output_tokens)
    saturated(fleet, 400, 16)
    (group,) = fleet.dispatcher.snapshot()["groups"]
    assert group["overhead_seconds"] == pytest.approx(0.0049, rel=0.02)
    assert group["seconds_per_token"] == pytest.approx(1.1e-7, rel=0.05)
    assert group["fit_r_squared"] > 0.95


def group_of_two(**options):
    story = Story(**options)
    for name in "ab":
        story.worker(name, group="one")
    sent = []
    for request in range(1, 5):
        sent.append(story.sent(request))
    return story, sent


def test_a_round_waits_until_every_running_worker_has_delivered_its_step():
    story, sent = group_of_two(gather_ms=0.0)
    story.tell(ev.Reloaded, settings=Settings(gather_ms=2.0))
    at = {leg.worker: [other for other in sent if other.worker == leg.worker] for leg in sent}
    for leg in sent:  # step 1
        story.chunk(leg.row)
    story.arrives(9)
    story.now_s = 1.0
    for leg in at["a"]:
        story.chunk(leg.row)
    story.finishes(at["a"][0])
    assert not story.d.due and story.tick() == []  # b has not delivered step 2
    for leg in at["b"]:
        story.chunk(leg.row)
    assert story.d.due
    (told,) = story.tick()
    assert (told.request, told.worker) == (9, "a")


def test_a_round_waits_no_longer_than_it_may():
    story, sent = group_of_two(gather_ms=0.0)
    story.tell(ev.Reloaded, settings=Settings(gather_ms=2.0))
    for leg in sent:
        story.chunk(leg.row)
    story.arrives(9)
    story.now_s = 1.0
    story.chunk(sent[0].row)
    story.finishes(sent[0])
    assert story.wake_s == pytest.approx(1.002)
    assert story.tick(1.001) == []
    assert [c.request for c in story.tick(1.002)] == [9]


def test_without_gathering_the_first_event_decides():
    story, sent = group_of_two(gather_ms=0.0)
    for leg in sent:
        story.chunk(leg.row)
    story.arrives(9)
    story.now_s = 1.0
    story.chunk(sent[0].row)
    story.finishes(sent[0])
    assert [c.request for c in story.tick()] == [9]


def test_the_host_is_told_when_to_come_back_and_only_when_that_changes():
    story = Story()
    story.worker("a", slots=1)
    (wake,) = story.d.handle(ev.Arrived(now_s=5.0, request=1, prompt_tokens=3))
    assert wake == WakeAt(5.0)
    assert story.d.handle(ev.Arrived(now_s=5.0, request=2, prompt_tokens=3)) == []
    assert story.d.handle(ev.Tick(now_s=5.0))[-1] == WakeAt(65.0)
    assert story.d.handle(ev.Tick(now_s=6.0)) == [WakeAt(65.0)]  # a tick uses up what was asked for


def test_pool_and_tenants_have_limits():
    story = Story(
        pool_limit=2,
        tenants={
            "t": TenantLimits(concurrent=1),
            "*": TenantLimits(per_s=2.0, burst=1),
            "w": TenantLimits(waiting=1),
        },
    )
    story.worker("a", slots=1)
    story.sent(1, tenant="t")
    assert story.arrives(2, tenant="t") == [Reject(2, 429, "tenant-limit", 1)]
    assert story.arrives(3, tenant="w") == []
    assert story.arrives(4, tenant="w") == [Reject(4, 429, "tenant-limit", 1)]
    assert story.arrives(5, tenant="x") == []
    assert story.arrives(6, tenant="x") == [Reject(6, 503, "pool-full", 1)]
    story.tell(ev.ClientGone, request=5)
    assert story.arrives(7, tenant="x") == [Reject(7, 429, "rate-limit", 1)]
    story.now_s = 1.0
    assert story.arrives(8, tenant="x") == []


def test_what_no_worker_can_ever_run_is_refused_at_once():
    story = Story()
    assert story.arrives(1) == [Reject(1, 503, "no-worker", 1)]
    story.worker("a", kv_tokens=100)
    assert story.arrives(2, prompt_tokens=101) == [Reject(2, 400, "too-long")]
    assert story.arrives(3, copies=3) == [Reject(3, 400, "too-wide")]
    story.tell(ev.Draining)
    assert story.arrives(4) == [Reject(4, 503, "draining", 1)]


def test_a_worker_counts_as_full_before_its_first_sample():
    story = Story()
    story.worker("a", heard=False)
    story.arrives(1)
    assert story.tick() == []
    story.sampled("a", running=1)  # somebody else's
    (sent,) = story.tick()
    assert sent.worker == "a"
    story.arrives(2)
    assert story.tick() == []  # two slots: one foreign, one ours


def test_a_reload_that_cannot_be_made_changes_nothing():
    story = Story()
    story.worker("a")
    with pytest.raises(InputError, match="nosuch"):
        story.tell(ev.Reloaded, policy="nosuch")
    story.tell(ev.Reloaded, policy="br-h:horizon=4", predictor="survival")
    assert story.d.snapshot()["policy"] == "br-h:horizon=4"
    with pytest.raises(InputError, match="oracle"):
        story.tell(ev.Reloaded, predictor="oracle")
    assert story.d.snapshot()["predictor"] == "survival"


def test_a_policy_that_does_not_look_ahead_is_shown_without_the_predictor_of_the_one_before():
    story = Story("br-h:horizon=4", predictor="survival")
    story.tell(ev.Reloaded, policy="jsq")
    assert story.d.snapshot()["predictor"] == ""
    story.tell(ev.Reloaded, policy="br-h:horizon=4")
    assert story.d.snapshot()["predictor"] == "survival"


def test_pool_bypass_binds_each_request_as_it_comes_up_to_a_margin_beyond_the_slots():
    story = Story("br-0:bypass=true", bypass_margin=1)
    story.worker("a", slots=1)
    assert [c.request for c in story.arrives(1)] == [1]
    assert [c.request for c in story.arrives(2)] == [2]
    assert story.arrives(3) == []
    assert story.d.snapshot()["pool_depth"] == 1


def test_the_same_request_twice_is_a_bug_of_the_host():
    story = Story()
    story.worker("a")
    story.arrives(1)
    with pytest.raises(RuntimeError, match="twice"):
        story.arrives(1)
    with pytest.raises(InputError, match="prompt_tokens"):
        story.arrives(2, prompt_tokens=0)


def test_the_last_events_and_their_commands_can_be_read():
    story = Story()
    story.worker("a")
    story.sent(1)
    assert [type(event).__name__ for event, _ in story.d.history][-2:] == ["Arrived", "Tick"]


@examples(25, fast=8)
@given(st.integers(0, 10_000), st.booleans())
def test_events_that_are_handled_together_leave_what_each_by_itself_leaves(seed, is_logged):
    logs: tuple[list, list] = ([], [])
    one, other = (Batches(seed, log=log.append if is_logged else None) for log in logs)
    for _ in range(25):
        events = one.batch()
        assert other.batch() == events
        assert one.together(events) == other.one_by_one(events)
        assert state(one.d) == state(other.d)
    assert logs[0] == logs[1] and bool(logs[0]) == is_logged


@examples(25, fast=8)
@given(st.integers(0, 10_000), st.booleans())
@example(397, True)  # a tick that lets the next part of a pool be bound at once
def test_a_tick_that_is_due_behind_events_may_be_handled_with_them(seed, is_logged):
    logs: tuple[list, list] = ([], [])
    one, other = (Batches(seed, log=log.append if is_logged else None) for log in logs)
    for _ in range(25):
        events = one.batch()
        assert other.batch() == events
        told = other.one_by_one(events)
        if other.d.due:
            told += other.one_by_one([ev.Tick(now_s=other.d.now_s)])
        assert one.together(events, ticks=True) == told
        assert state(one.d) == state(other.d)
    assert logs[0] == logs[1] and bool(logs[0]) == is_logged


def test_an_event_that_is_refused_stands_first_and_what_was_decided_before_it_is_told_next():
    story = Story("br-0:bypass=true")
    story.worker("a", slots=9)
    arrived = [ev.Arrived(now_s=0.0, request=r, prompt_tokens=p) for r, p in ((1, 5), (2, 0), (3, 5))]
    events = deque(arrived)
    with pytest.raises(InputError):
        story.d.handle_all(events)
    assert list(events) == arrived[1:]
    events.popleft()
    assert [c.request for c in story.d.handle_all(events) if isinstance(c, SendDecode)] == [1, 3]


def test_an_answer_that_came_whole_counts_but_is_no_step_of_its_group():
    story = Story()
    story.worker("a", slots=2)
    streamed, whole = story.sent(1), story.sent(2)
    story.chunk(streamed.row)
    steps = story.d.parts.barriers.all.at.steps[0]
    story.tell(ev.Finished, request=2, leg=whole.leg, prompt_tokens=12, output_tokens=7, at=3.0)
    meters = story.d.parts.meters
    assert (meters.output_tokens, meters.requests["200"], meters.tpot_s.values()["count"]) == (7, 1, 0)
    assert meters.ttft_s.values()["sum"] == 3.0 and story.d.parts.barriers.all.at.steps[0] == steps
    assert story.d.snapshot()["workers"][0]["worker_kv_tokens"] == 11.0


def test_the_predictor_hears_of_who_left_or_failed_after_a_first_token():
    story = Story("br-h:horizon=8", predictor="survival", retries=0)
    story.worker("a", slots=4)
    left, failed, _, runs = (story.sent(request) for request in (1, 2, 3, 4))
    for _ in range(2):
        for one in (left, failed, runs):
            story.chunk(one.row)
    heard = []
    predictor = story.d.parts.deciding.predictor
    gone, predictor.gone = predictor.gone, lambda unfinished: (heard.append(unfinished), gone(unfinished))
    story.tell(ev.ClientGone, request=1)
    story.fails(failed, "stream")
    story.tell(ev.ClientGone, request=3)  # it had no token
    story.finishes(runs)
    short = story.sent(5, copies=2)
    story.chunk(short.row)
    story.finishes(short)  # one token for two answers is no length
    told = [(one.request_id.item(), one.prompt_tokens.item(), one.output_tokens.item()) for one in heard]
    assert told == [(1, 10, 2), (2, 10, 2), (5, 10, 0)]


def test_a_tick_that_is_due_is_asked_for_once():
    story = Story()
    story.worker("a", slots=4)
    asked = [story.d.handle(ev.Arrived(now_s=0.0, request=n, prompt_tokens=5)) for n in (1, 2)]
    assert asked == [[WakeAt(0.0)], []]
