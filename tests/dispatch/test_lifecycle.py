"""The life of requests as stories: given these events, exactly these commands; and as storms of random events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dispatch.storm import HandingBack, Storm
from tests.dispatch.told import Story
from tests.strategies import examples

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import (
    Abort,
    Continue,
    Fail,
    Notice,
    Probe,
    Reject,
    Release,
    Removed,
    SendDecode,
    SendPrefill,
)
from evenstep.dispatch.settings import Settings


def two_workers(**options):
    story = Story(**options)
    story.worker("a")
    story.worker("b")
    return story


@given(st.integers(0, 10_000), st.booleans())
@examples(40, fast=12)
def test_in_any_storm_every_request_ends_exactly_once_and_nothing_is_left(seed, split):
    storm = Storm(seed, split)
    for _ in range(60):
        storm.step()
    storm.calm()


@given(st.integers(0, 10_000), st.booleans())
@examples(40, fast=12)
def test_engines_that_hand_back_what_they_get_are_asked_no_more_often_than_retries_allow(seed, split):
    storm = HandingBack(seed, split)
    for _ in range(60):
        storm.step()
    storm.calm()


@pytest.mark.slow
@given(st.integers(0, 1 << 40), st.booleans(), st.integers(20, 150))
@settings(max_examples=500, deadline=None)
def test_in_a_thousand_storms_every_request_ends_exactly_once_and_nothing_is_left(seed, split, steps):
    for storm in (Storm(seed, split), HandingBack(seed, split)):
        for _ in range(steps):
            storm.step()
        storm.calm()


def test_a_request_arrives_is_sent_decodes_and_ends():
    story = two_workers()
    assert story.arrives(1) == []
    assert story.d.due
    (sent,) = story.tick(0.5)
    assert sent == SendDecode(1, 1, "a", sent.row)
    story.chunk(sent.row, 3)
    assert story.d.snapshot()["workers"][0]["worker_kv_tokens"] == 13
    assert story.finishes(sent) == []
    assert story.d.snapshot()["requests_total"] == {"200": 1}


def test_a_prompt_is_prefilled_first_where_there_are_prefillers():
    story = Story()
    story.worker("p", role="prefill")
    story.worker("d")
    assert story.arrives(1) == [SendPrefill(1, 1, "p")]
    assert story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=12) == []
    (sent,) = story.tick()
    assert sent == SendDecode(1, 2, "d", sent.row)
    assert story.d.fleet.prefill.free("p") < 0.9
    story.chunk(sent.row)  # the transfer is complete
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.9)


def test_a_decoder_that_lacks_the_adapter_costs_no_second_prefill():
    story = Story(backoff_s=0.0)
    story.worker("p", role="prefill")
    for name in "abc":
        story.worker(name)
    story.arrives(1)
    story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=12)
    for name in "abc":
        (sent,) = story.tick()
        assert sent == SendDecode(1, sent.leg, name, sent.row)
        assert story.d.fleet.prefill.free("p") < 0.9, "its KV is kept"
        told = story.fails(sent, "unable")
    assert told == [Reject(1, 502, "failed"), Release(1, "p")]
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.9)


@pytest.mark.parametrize("drain", [True, False])
def test_a_kept_prompt_goes_with_its_prefiller(drain):
    story = Story(backoff_s=1.0)
    for name in "pq":
        story.worker(name, role="prefill")
    for name in "ab":
        story.worker(name)
    story.arrives(1)
    story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=12)
    (sent,) = story.tick()
    story.fails(sent, "unable")
    told = story.tell(ev.WorkerRemoved, worker="p", drain=drain)
    assert (Removed("p") in told) is not drain
    told = story.tick(at=1.0) or story.tick()
    assert told == [SendDecode(1, 3, "b", sent.row) if drain else SendPrefill(1, 3, "q")]


@pytest.mark.parametrize("stage", ["pool", "sent", "backing off"])
def test_the_hand_over_of_a_prefiller_that_is_removed_at_once_is_dropped(stage):
    story = Story(backoff_s=1.0, retries=3)
    story.worker("p", role="prefill")
    for name in "ab":
        story.worker(name)
    story.arrives(1)
    story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=12)
    sent = None if stage == "pool" else story.tick()[0]
    if stage == "backing off":
        story.fails(sent, "unable")
    assert story.tell(ev.WorkerRemoved, worker="p", drain=False) == [Release(1, "p"), Removed("p")]
    if stage == "sent":
        story.fails(sent, "status")
    told = story.tick(at=1.0) or story.tick()
    assert [type(command) for command in told] == [SendDecode]


def test_a_prefiller_that_was_not_heard_of_takes_no_work_until_it_is():
    story = Story()
    story.worker("p", role="prefill", heard=False)
    story.worker("d")
    assert story.arrives(1) == []
    assert story.sampled("p", kv_used=0.2) == [SendPrefill(1, 1, "p")]


def test_before_the_first_token_a_failure_is_retried_once_on_each_other_engine_with_growing_waits():
    story = two_workers(backoff_s=0.1, retries=3)
    first = story.sent(1)
    assert story.fails(first, "status") == []
    assert story.wake_s == pytest.approx(0.1)
    assert story.tick(0.05) == []
    (second,) = story.tick(0.1)
    assert second.worker == "b"
    assert story.fails(second, "stall") == [Reject(1, 502, "failed")]


@pytest.mark.parametrize(("asked_s", "waits_s"), [(0.0, 0.1), (3.0, 3.0), (9.0, 5.0)])
def test_a_longer_wait_that_the_engine_asks_for_counts_up_to_five_seconds(asked_s, waits_s):
    story = two_workers(backoff_s=0.1, retries=3)
    assert story.fails(story.sent(1), "status", retry_after_s=asked_s) == []
    assert story.wake_s == pytest.approx(waits_s)
    assert story.tick(waits_s - 0.01) == []
    assert story.tick(waits_s)[0].worker == "b"


def test_waits_of_more_than_a_thousand_tries_have_a_limit():
    story = two_workers(backoff_s=0.0, retries=1100, ttl_s=1e6, total_s=0.0)
    leg = story.sent(1)
    for _ in range(1100):
        assert story.fails(leg, "recomputed") == []
        (leg,) = story.tick()
    assert story.fails(leg, "recomputed") == [Reject(1, 502, "failed")]


def test_a_stale_connection_is_nobodys_fault_where_nobody_else_could_be_asked():
    """Once; two workers that share a barrier are lost together."""
    story = Story(backoff_s=9.0, breaker_failures=1)
    for name in "ab":
        story.worker(name, group="x")
    first = story.sent(1)
    assert story.fails(first, "stale") == []
    (second,) = story.tick()
    assert second.worker == "a"
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])
    assert story.fails(second, "stale") == [Reject(1, 502, "failed")]


def test_a_stale_connection_sends_the_request_elsewhere_and_ejects_no_engine():
    """As behind a proxy that resets kept connections between two requests."""
    story = two_workers(backoff_s=0.0, breaker_failures=1)
    story.fails(story.sent(1), "stale")
    (again,) = story.tick()
    assert again.worker == "b"
    story.chunk(again.row)
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])


@pytest.mark.parametrize("kind", ["status", "recomputed"])
def test_a_failure_that_does_not_count_ejects_no_engine(kind):
    story = two_workers(backoff_s=0.0, breaker_failures=1)
    story.fails(story.sent(1), kind, is_counted=False)
    (again,) = story.tick()
    assert again.worker == "b"
    story.chunk(again.row)
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])


def test_a_barrier_group_dies_as_one_so_a_retry_goes_to_another_group():
    story = Story(backoff_s=0.0, retries=3)
    for name, group in (("a", "x"), ("b", "x"), ("c", "y")):
        story.worker(name, group=group)
    sent = story.sent(1)
    assert sent.worker == "a"
    story.fails(sent, "stream")
    assert [c.worker for c in story.tick()] == ["c"]


def test_after_the_first_token_a_stream_goes_on_elsewhere_with_what_it_had():
    story = two_workers()
    sent = story.sent(1, max_tokens=9)
    story.chunk(sent.row, 4)
    assert story.fails(sent, "stream") == []
    (again,) = story.tick()
    assert again == Continue(1, 2, "b", sent.row, 4)
    assert story.d.snapshot()["workers"][1]["worker_kv_tokens"] == 14
    assert story.d.snapshot()["recompute_total"] == 1
    story.chunk(again.row)
    assert story.finishes(again) == []


def test_a_recomputed_request_may_come_back_to_the_engine_that_stopped_it():
    story = Story()
    story.worker("a")
    sent = story.sent(1)
    story.chunk(sent.row, 2)
    story.fails(sent, "recomputed")
    assert story.tick() == [Continue(1, 2, "a", sent.row, 2)]


def test_an_engine_that_hands_back_without_a_token_is_asked_as_often_as_retries_allow_and_later_and_later():
    story = Story(retries=5, backoff_s=1.0, backoff_cap_s=5.0, stale_s=99.0)
    story.worker("a")
    sent, at_s = story.sent(1), 0.0
    for wait_s in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert story.fails(sent, "recomputed") == []
        assert story.tick(at_s + 0.99 * wait_s) == []
        at_s += wait_s
        (sent,) = story.tick(at_s)
    assert story.fails(sent, "recomputed") == [Reject(1, 502, "failed")]


def test_an_answer_that_is_handed_back_without_a_new_token_ends_with_an_error_after_as_many_retries():
    story = Story(retries=2, backoff_s=1.0, stale_s=99.0)
    story.worker("a")
    sent = story.sent(1)
    for _ in range(5):  # each with a token: the answer goes on
        story.chunk(sent.row)
        story.fails(sent, "recomputed")
        (sent,) = story.tick()
    for _ in range(2):
        assert story.fails(sent, "recomputed") == []
        assert story.tick() == []
        (sent,) = story.tick(story.wake_s)
        assert sent == Continue(1, sent.leg, "a", sent.row, 5)
    assert story.fails(sent, "recomputed") == [Fail(1, "failed")]


def test_a_request_that_was_handed_back_goes_to_another_engine_with_room_or_back_where_no_other_has_any():
    story = two_workers(backoff_s=0.0, retries=9)
    first = story.sent(1)
    assert first.worker == "a"
    story.fails(first, "recomputed")
    (second,) = story.tick()
    assert second.worker == "b"
    story.fails(second, "recomputed")
    (third,) = story.tick()
    assert third.worker == "a"  # only the last one is avoided
    others = [story.sent(request) for request in (2, 3, 4)]
    assert [c.worker for c in others] == ["b", "a", "b"]
    story.fails(third, "recomputed")
    assert [c.worker for c in story.tick()] == ["a"]


def test_a_request_goes_back_to_the_engine_that_handed_it_back_where_all_others_failed():
    story = two_workers(backoff_s=0.0)
    first = story.sent(1)
    story.fails(first, "recomputed")
    (second,) = story.tick()
    assert story.sent(2).worker == "a"
    assert story.fails(second, "stall") == []
    (third,) = story.tick()  # the policy would like the lighter one, where it failed
    assert (first.worker, second.worker, third.worker) == ("a", "b", "a")


def test_a_request_that_waits_for_the_last_worker_it_could_go_to_ends_when_that_one_leaves():
    story = Story()
    story.worker("a")
    story.worker("b", slots=1)
    waiting = story.sent(1)
    assert (waiting.worker, story.sent(2).worker) == ("a", "b")
    story.chunk(waiting.row)
    assert story.fails(waiting, "stream") == []
    assert story.tick() == []
    assert story.tell(ev.WorkerRemoved, worker="b") == [Fail(1, "failed")]


def test_an_engine_whose_requests_others_answer_after_it_handed_them_back_is_left_alone():
    story = two_workers(backoff_s=0.0, breaker_failures=2)
    for request in (1, 2):
        first = story.sent(request)
        assert first.worker == "a"
        story.fails(first, "recomputed")
        (second,) = story.tick()
        story.finishes(second)
    assert [worker["is_up"] for worker in story.d.snapshot()["workers"]] == [False, True]


def test_a_continuation_goes_past_engines_that_are_known_not_to_continue_at_no_cost_of_tries():
    story = Story(retries=0, breaker_failures=1)
    for name in "abc":
        story.worker(name, group="x")
    sent = story.sent(1)
    story.chunk(sent.row, 2)
    story.fails(sent, "recomputed")
    for name in "abc":
        (sent,) = story.tick()
        assert sent == Continue(1, sent.leg, name, sent.row, 2)
        told = story.fails(sent, "unable")
    assert told == [Fail(1, "cannot-continue")]
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])


@pytest.mark.parametrize(
    ("fields", "reason"), [({"can_continue": False}, "cannot-continue"), ({"copies": 2}, "cannot-continue")]
)
def test_a_stream_that_cannot_be_joined_ends_with_an_error(fields, reason):
    story = two_workers()
    sent = story.sent(1, **fields)
    story.chunk(sent.row)
    assert story.fails(sent, "stream") == [Fail(1, reason)]


def test_a_fault_of_the_client_is_passed_on_and_blames_nobody():
    story = two_workers(breaker_failures=1)
    assert story.fails(story.sent(1), "client") == [Reject(1, 0, "client")]
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])


@pytest.mark.parametrize("stage", ["pool", "prefill", "between", "sent", "running"])
def test_a_client_that_leaves_frees_everything_at_every_stage(stage):
    story = Story()
    story.worker("p", role="prefill")
    story.worker("d", slots=1)
    if stage == "pool":
        story.d.fleet.prefill.unreadable("p")
    told = story.arrives(1)
    expected = []
    if stage == "prefill":
        expected = [Abort(1, 1, "p")]
    if stage in ("between", "sent", "running"):
        assert told == [SendPrefill(1, 1, "p")]
        story.tell(ev.PrefillDone, request=1, leg=1)
        expected = [Release(1, "p")]
    if stage in ("sent", "running"):
        (sent,) = story.tick()
        expected = [Abort(1, 2, "d"), Release(1, "p")]
        if stage == "running":
            story.chunk(sent.row)
            expected = [Abort(1, 2, "d")]
    assert story.tell(ev.ClientGone, request=1) == expected
    assert story.d.snapshot()["requests_present"] == 0
    assert story.d.snapshot()["cancelled_total"] == 1


def test_what_waits_too_long_is_told_so_and_its_kv_is_released():
    story = Story(ttl_s=2.0)
    story.worker("p", role="prefill")
    story.worker("d", slots=1)
    story.arrives(1)
    story.tell(ev.PrefillDone, request=1, leg=1)
    story.tick()
    story.arrives(2)
    story.tell(ev.PrefillDone, request=2, leg=3)
    assert story.tick(1.9) == []
    assert story.tick(2.0) == [Reject(2, 503, "expired", 1), Release(2, "p")]


@pytest.mark.parametrize("stage", ["pool", "sent", "running", "backing off"])
def test_a_request_whose_total_time_is_over_ends_at_every_stage(stage):
    story = Story(total_s=9.0, ttl_s=100.0, backoff_s=60.0, backoff_cap_s=60.0, stale_s=99.0)
    story.worker("a", slots=1)
    story.now_s = 1.0
    if stage == "pool":
        story.sent(7)
    story.arrives(1)
    expected = [Reject(1, 504, "overdue")]
    if stage != "pool":
        (sent,) = story.tick()
    if stage == "running":
        story.chunk(sent.row)
        expected = [Fail(1, "overdue")]
    if stage == "backing off":
        story.fails(sent, "recomputed")
    elif stage != "pool":
        expected.insert(0, Abort(1, 1, "a"))
    else:
        story.tick()
        expected = [Abort(7, 1, "a"), Reject(7, 504, "overdue"), *expected]
    assert story.tick(9.5) == [] and story.wake_s == 10.0
    assert story.tick(10.0) == expected
    assert story.d.snapshot()["requests_present"] == 0


def test_without_a_total_time_a_request_may_last_for_ever():
    story = Story(total_s=0.0)
    story.worker("a")
    sent = story.sent(1)
    story.chunk(sent.row)
    assert story.tick(1e9) == []


def test_a_shorter_total_time_holds_for_requests_that_are_there_already():
    story = two_workers()
    story.chunk(story.sent(1).row)
    story.tell(ev.Reloaded, settings=Settings(total_s=5.0))
    assert story.wake_s == 5.0
    assert story.tick(5.0) == [Abort(1, 1, "a"), Fail(1, "overdue")]


def test_a_request_for_several_answers_waits_for_so_many_slots_of_one_worker_and_others_do_not_take_them():
    story = Story()
    story.worker("a", slots=3)
    first, second = story.sent(1), story.sent(2)
    story.arrives(3, copies=3)
    assert story.tick() == []  # holds the third slot
    story.arrives(4)
    assert story.tick() == []
    story.finishes(first)
    assert story.finishes(second) == [SendDecode(3, 3, "a", story.d.rows.by_request[3])]
    story.chunk(story.d.rows.by_request[3], 3)


def test_a_worker_that_leaves_finishes_first_or_hands_over_at_once():
    story = two_workers()
    sent = story.sent(1)
    story.chunk(sent.row, 2)
    assert story.tell(ev.WorkerRemoved, worker="a") == []
    assert story.arrives(2) == [] and story.tick()[0].worker == "b"
    assert story.finishes(sent) == [Removed("a")]
    story.worker("c")
    moved = story.d.rows.by_request[2]
    story.chunk(moved)
    told = story.tell(ev.WorkerRemoved, worker="b", drain=False)
    assert told == [Abort(2, 2, "b"), Removed("b")]
    assert story.tick() == [Continue(2, 3, "c", moved, 1)]


def test_events_of_a_leg_that_is_no_longer_the_request_s_own_are_dropped_and_counted():
    story = two_workers(backoff_s=0.0)
    first = story.sent(1)
    story.fails(first, "connect")
    assert story.finishes(first) == []
    assert story.tell(ev.ClientGone, request=77) == []
    assert story.d.snapshot()["late_events_total"] == 2


def test_an_engine_that_refuses_again_and_again_is_left_alone_and_probed():
    story = two_workers(breaker_failures=2, backoff_s=9.0, backoff_cap_s=9.0, cooldown_s=1.0)
    story.fails(story.sent(1), "connect")
    told = story.fails(story.sent(2), "connect")
    assert [c.kind for c in told if isinstance(c, Notice)] == ["ejected"]
    assert story.sent(3).worker == "b"
    (probe,) = story.tick(1.0)
    assert probe.worker == "a"
    story.tell(ev.Probed, worker="a", ok=False)
    assert story.tick(2.0) == []
    assert story.tick(3.0) == [probe]
    (notice,) = story.tell(ev.Probed, worker="a", ok=True)
    assert notice.kind == "recovered"
    assert story.sent(4).worker == "a"


@pytest.mark.parametrize("is_well", [True, False])
def test_a_request_that_failed_on_all_healthy_engines_waits_for_an_ejected_one_no_longer_than_two_probes(
    is_well,
):
    story = two_workers(breaker_failures=1, cooldown_s=1.0)
    first = story.sent(1)
    assert [type(c) for c in story.fails(first, "connect")] == [Notice]
    (again,) = story.tick(0.1)
    story.finishes(again)
    second = story.sent(2)
    assert (first.worker, again.worker, second.worker) == ("a", "b", "b")
    assert story.fails(second, "status") == []
    assert any(isinstance(c, Probe) for c in story.tick(1.1))
    story.tell(ev.Probed, worker="a", ok=is_well)
    (command,) = [c for c in story.tick(1.2 if is_well else 3.2) if isinstance(c, SendDecode | Reject)]
    if is_well:
        assert isinstance(command, SendDecode) and command.worker == "a"
    else:
        assert isinstance(command, Reject) and (command.status, command.reason) == (503, "expired")


def test_a_request_waits_for_the_probe_of_an_ejected_engine_that_is_probed_at_once():
    story = two_workers(breaker_failures=1, cooldown_s=0.0, backoff_s=0.0)
    story.tell(ev.Probed, worker="a", ok=False)
    first = story.sent(1)
    assert first.worker == "b"
    assert story.fails(first, "status") == []
    assert story.tick(0.1) == []
    story.tell(ev.Probed, worker="a", ok=True)
    (second,) = story.tick(0.2)
    assert isinstance(second, SendDecode) and second.worker == "a"


@pytest.mark.parametrize("tier", ["pool", "prefill"])
@pytest.mark.parametrize("ttl_s", [1.0, 30.0])
def test_another_longest_wait_holds_for_requests_that_wait_already(tier, ttl_s):
    story = Story(ttl_s=9.0, total_s=0.0, stale_s=99.0)
    story.worker("a", slots=1)
    story.sent(7)
    if tier == "prefill":
        story.worker("p", role="prefill")
        story.d.fleet.prefill.unreadable("p")
    story.now_s = 1.0
    story.arrives(1)
    story.tick()
    story.now_s = 1.5
    story.arrives(2)
    story.tell(ev.Reloaded, settings=Settings(ttl_s=ttl_s, total_s=0.0, stale_s=99.0))
    assert story.tick(1.0 + ttl_s - 0.1) == []
    assert [told.request for told in story.tick(1.0 + ttl_s)] == [1]
    assert [(told.request, told.reason) for told in story.tick(1.5 + ttl_s)] == [(2, "expired")]


def test_a_rejected_request_is_counted_by_the_status_that_its_host_answered_with():
    story = two_workers()
    assert story.fails(story.sent(1), "client") == [Reject(1, 0, "client")]
    assert story.d.snapshot()["requests_total"] == {}
    story.d.rejected(422)
    assert story.d.snapshot()["requests_total"] == {"422": 1}


def test_times_are_from_arrival_to_the_first_token_and_from_there_to_the_end_over_all_engines():
    story = two_workers()
    sent = story.sent(1)
    story.now_s = 1.5
    story.chunk(sent.row)
    story.fails(sent, "stream")
    (sent,) = story.tick(3.0)
    story.now_s = 5.0
    story.chunk(sent.row, 2)
    wide = story.sent(2, copies=2)
    for now_s in (6.0, 7.0, 8.0):
        story.now_s = now_s
        story.chunk(wide.row, 2)
    story.now_s = 8.5
    story.finishes(sent)
    story.now_s = 9.0
    story.finishes(wide)
    meters = story.d.parts.meters
    ttft, tpot = meters.ttft_s.values(), meters.tpot_s.values()
    assert (ttft["count"], ttft["sum"]) == (2, 1.5 + 1.0)
    assert (tpot["count"], tpot["sum"]) == (2, (8.5 - 1.5) / 2 + (9.0 - 6.0) / 2)
    assert (meters.output_tokens, meters.recomputes, meters.retries, dict(meters.requests)) == (9, 1, 0, {"200": 2})


def test_a_client_that_leaves_is_counted_once():
    story = two_workers()
    story.sent(1)
    story.tell(ev.ClientGone, request=1)
    found = story.d.snapshot()
    assert (found["requests_total"], found["cancelled_total"]) == ({"cancelled": 1}, 1)


@pytest.mark.parametrize("kind", ["unable", "status", "stream"])
def test_a_prompt_whose_prefiller_failed_is_charged_there_no_more(kind):
    story = Story(backoff_s=1.0)
    for name in "pq":
        story.worker(name, role="prefill")
    story.worker("d")
    (sent,) = story.arrives(1, prompt_tokens=20_000)
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.7)
    assert story.fails(sent, kind) == [], "nothing is kept there, so there is nothing to release"
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.9)
    assert story.tick(1.0) == [SendPrefill(1, 2, "q")]


@pytest.mark.parametrize("kind", ["status", "stream", "connect"])
def test_a_prompt_whose_decoder_failed_is_prefilled_anew(kind):
    """The decoder may have taken the KV, or a part of it."""
    story = Story(backoff_s=1.0)
    story.worker("p", role="prefill")
    for name in "ab":
        story.worker(name)
    story.arrives(1, prompt_tokens=20_000)
    story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=20_000)
    (sent,) = story.tick()
    assert story.fails(sent, kind) == [Release(1, "p")]
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.9)
    assert story.tick(1.0) == [SendPrefill(1, 3, "p")]


def test_an_answer_that_waits_after_it_was_handed_back_needs_no_prefill():
    story = Story(retries=2, backoff_s=1.0)
    story.worker("p", role="prefill")
    story.worker("a")
    story.arrives(1)
    story.tell(ev.PrefillDone, request=1, leg=1)
    (sent,) = story.tick()
    story.chunk(sent.row)
    story.fails(sent, "recomputed")
    (sent,) = story.tick()
    assert story.fails(sent, "recomputed") == []
    assert story.tick(1.0) == [Continue(1, 4, "a", sent.row, 1)]


def test_those_that_wait_for_a_prefiller_wait_on_while_one_stays():
    story = Story()
    for name in "pq":
        story.worker(name, role="prefill", heard=False)
    story.worker("a")
    assert story.arrives(1) == []
    assert story.tell(ev.WorkerRemoved, worker="p", drain=True) == [Removed("p")]
    assert story.tick() == []
    assert story.sampled("q", kv_used=0.1) == [SendPrefill(1, 1, "q")]


def test_those_that_wait_for_a_prefiller_are_sent_without_one_when_the_last_leaves():
    story = Story()
    story.worker("p", role="prefill", heard=False)
    story.worker("a", slots=2)
    story.arrives(1), story.arrives(2)
    assert story.tell(ev.WorkerRemoved, worker="p", drain=True) == [Removed("p")]
    assert [(told.request, told.worker) for told in story.tick()] == [(1, "a"), (2, "a")]


def test_an_engine_that_others_show_to_have_failed_is_told_at_once():
    """A first token tells, and the command must not wait for the next event."""
    story = two_workers(breaker_failures=1, backoff_s=0.0)
    story.fails(story.sent(1), "status")
    (again,) = story.tick()
    assert story.tick(0.1) == [] and not story.d.due
    story.chunk(again.row)
    assert story.d.due and [type(told) for told in story.tick()] == [Notice]


def test_an_engine_that_was_removed_is_not_blamed_for_what_it_left_behind():
    story = two_workers(breaker_failures=1, backoff_s=0.0)
    story.sent(1)
    story.tell(ev.WorkerRemoved, worker="a", drain=False)
    (again,) = story.tick()
    assert again.worker == "b"
    story.worker("a")
    story.chunk(again.row)
    assert all(worker["is_up"] for worker in story.d.snapshot()["workers"])
    assert [told for told in story.tick() if isinstance(told, Notice)] == []


def test_the_last_healthy_engine_keeps_what_it_is_believed_to_hold_when_it_fails():
    story = Story("prefix-affinity", breaker_failures=1)
    story.worker("a", slots=4)
    first = story.sent(1, blocks=(1, 2))
    story.chunk(first.row)
    story.fails(story.sent(2), "connect")
    story.sent(3, blocks=(1, 2))
    assert story.d.parts.prefixes.hit_tokens == 10


def test_lengths_are_logged_and_learned_as_the_engine_told_them_last():
    log = []
    story = Story("br-h:horizon=8", predictor="survival", log=log.append)
    story.worker("a", slots=8)
    learned = []
    predictor = story.d.parts.deciding.predictor
    begin, predictor.begin = (
        predictor.begin,
        lambda finished: (
            learned.extend(zip(finished.prompt_tokens.tolist(), finished.output_tokens.tolist(), strict=True))
            or begin(finished)
        ),
    )
    streamed, whole, wide, running = (story.sent(1), story.sent(2), story.sent(3, copies=2), story.sent(4))
    story.chunk(streamed.row, 3)
    story.tell(ev.Finished, request=1, leg=streamed.leg, prompt_tokens=1, output_tokens=3)
    story.tell(ev.Finished, request=2, leg=whole.leg, prompt_tokens=12, output_tokens=7)
    story.chunk(wide.row)
    story.finishes(wide)
    story.chunk(running.row)
    story.sent(5)
    assert learned == [(1, 3), (12, 7)], "one token for two answers is no length"
    done = [(one.prompt_tokens, one.output_tokens) for one in log if type(one).__name__ == "Done"]
    assert done == [(1, 3), (12, 7), (10, 1)]


def test_a_prediction_is_measured_by_the_length_that_came():
    story = Story("br-h:horizon=8")
    story.worker("a", slots=4)
    bounded, free, early = (story.sent(1, max_tokens=6), story.sent(2), story.sent(3))
    for one in (bounded, free):
        story.chunk(one.row)
    story.finishes(story.sent(4))  # a round, in which both are asked about; the third has no token yet
    story.chunk(early.row, 5)
    story.chunk(bounded.row)
    for one in (bounded, free, early):
        story.finishes(one)
    found = story.d.snapshot()["prediction_error_tokens"]
    assert (found["count"], found["sum"]) == (1, 6 - 2), "the ends of the others were not told"
