"""Workers that come, go, fail and come back."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Notice, Probe, Removed
from evenstep.dispatch.settings import WorkerSpec
from evenstep.errors import InputError


def kinds(told):
    return [c.kind for c in told if isinstance(c, Notice)]


def test_the_last_healthy_engine_is_never_ejected():
    story = Story(breaker_failures=1)
    for name in "ab":
        story.worker(name)
    assert kinds(story.tell(ev.Probed, worker="a", ok=False)) == ["ejected"]
    assert kinds(story.tell(ev.Probed, worker="b", ok=False)) == ["last-healthy"]
    assert story.sent(1).worker == "b"


def test_what_the_engine_says_otherwise_is_told_once_a_minute():
    story = Story()
    story.worker("a", slots=8, kv_tokens=500, heard=False)
    told = story.sampled("a", slots=4, kv_tokens=400)
    assert kinds(told) == ["disagreement"]
    assert kinds(story.sampled("a", slots=4)) == []
    story.now_s = 60.0
    assert kinds(story.sampled("a", slots=4)) == ["disagreement"]


def test_a_worker_can_be_described_anew_but_not_change_its_role():
    story = Story()
    story.worker("a", slots=1)
    story.sent(1)
    story.tell(ev.WorkerRemoved, worker="a")
    story.tell(ev.WorkerAdded, spec=WorkerSpec(name="a", slots=3, group="x"))
    assert story.d.snapshot()["workers"][0]["free_slots"] == 2
    with pytest.raises(InputError, match="role"):
        story.tell(ev.WorkerAdded, spec=WorkerSpec(name="a", role="prefill"))


def test_a_prefiller_whose_metrics_are_no_longer_read_takes_prompts():
    story = Story()
    story.worker("d")
    story.worker("p", role="prefill", heard=False)
    assert story.arrives(1) == []
    (told,) = story.worker("p", role="prefill", heard=False, scraped=False)
    assert (told.request, told.worker) == (1, "p")
    story.tell(ev.ScrapeFailed, worker="p")  # of a reading that was under way
    (told,) = story.arrives(2)
    assert (told.request, told.worker) == (2, "p")


def test_a_prefiller_with_another_group_leaves_the_steps_of_the_workers_alone():
    story = Story()
    story.worker("d")
    story.worker("p", role="prefill")
    steps = story.d.parts.barriers.all
    story.worker("p", role="prefill", group="other")
    assert story.d.parts.barriers.all is steps


def test_a_shared_worker_whose_metrics_are_no_longer_read_is_neither_full_nor_stale():
    story = Story()
    story.worker("a", slots=8)
    for story.now_s in (1.0, 2.0):
        story.sampled("a", running=7)
    story.worker("a", slots=8, heard=False, scraped=False)
    for _ in range(2):
        (shown,) = story.d.snapshot()["workers"]
        assert (shown["foreign_requests"], shown["is_shared"], shown["free_slots"]) == (0, False, 8)
        story.sampled("a", running=7)  # a reading that was under way
    story.now_s = 500.0
    story.sent(1)
    assert story.d.snapshot()["fallback_total"] == {}


def test_a_worker_nobody_knows_is_nobody_s_business():
    story = Story()
    story.worker("a")
    story.worker("p", role="prefill")
    for told in (
        story.sampled("x"),
        story.tell(ev.ScrapeFailed, worker="x"),
        story.tell(ev.Probed, worker="x", ok=True),
        story.tell(ev.WorkerRemoved, worker="x"),
    ):
        assert told == []
    assert story.tell(ev.WorkerRemoved, worker="p") == [Removed("p")]
    assert not story.d.fleet.is_split


def test_foreign_load_and_missing_requests_are_told():
    story = Story()
    story.worker("a", slots=9)
    story.sampled("a", running=2)
    assert kinds(story.sampled("a", running=2)) == ["foreign"]
    story.sent(1)
    for _ in range(2):
        assert kinds(story.sampled("a", running=0)) == []
    assert kinds(story.sampled("a", running=0)) == ["divergence"]
    assert story.d.snapshot()["state_divergence_total"] == 1


def test_a_worker_that_is_back_before_its_removal_is_told_is_not_told_to_be_gone():
    """A chunk frees the prefiller, which is taken out; that is told with the next event, which brings it back."""
    story = Story()
    story.worker("d")
    story.worker("p", role="prefill")
    story.arrives(1)
    story.tick()
    (sent,) = story.tell(ev.PrefillDone, request=1, leg=1, prompt_tokens=12) or story.tick()
    assert story.tell(ev.WorkerRemoved, worker="p") == []
    story.chunk(sent.row)
    assert story.worker("p", role="prefill") == []
    assert story.d.fleet.is_split


def test_a_worker_that_was_ejected_is_probed_although_another_one_has_left():
    """Two workers had the same number for their probes, and the probe went to the other one."""
    story = Story(breaker_failures=1, cooldown_s=1.0)
    for name in "abc":
        story.worker(name)
    story.tell(ev.WorkerRemoved, worker="a")
    story.worker("d")
    assert kinds(story.tell(ev.Probed, worker="d", ok=False)) == ["ejected"]
    assert Probe("d") in story.tick(at=2.0)


def test_nothing_is_kept_of_a_worker_that_has_left():
    story = Story(breaker_failures=1)
    for name in "ab":
        story.worker(name)
    assert kinds(story.tell(ev.Probed, worker="a", ok=False)) == ["ejected"]
    story.tell(ev.WorkerRemoved, worker="a")
    assert not any(about == "a" for _, about in story.d.fleet._noticed)


@pytest.mark.parametrize("role", ["decode", "prefill"])
def test_a_kv_capacity_that_is_no_longer_given_is_unknown_until_the_engine_says_one(role):
    story = Story()
    capacity = lambda: story.d.fleet.find("a").capacity  # noqa: E731
    story.worker("a", role=role)
    unknown = capacity()
    story.worker("a", role=role, kv_tokens=500, heard=False)
    assert capacity() == 500.0
    story.worker("a", role=role, heard=False)
    assert capacity() == unknown
    story.sampled("a", kv_tokens=400)
    story.worker("a", role=role, slots=9, heard=False)
    assert capacity() == 400.0
