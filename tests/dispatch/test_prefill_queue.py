"""Requests that wait for a prefiller."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Removed, SendDecode, SendPrefill


def split(slots: int = 1) -> Story:
    story = Story("jsq")
    story.worker("d", slots=9)
    story.worker("p", role="prefill", slots=slots)
    return story


def test_the_oldest_request_gets_the_first_room():
    story = split()
    sent = [c for c in story.arrives(1) if isinstance(c, SendPrefill)]
    story.arrives(2)
    story.arrives(3)
    assert list(story.d.parts.prefills.waiting) == [story.d.rows.by_request[r] for r in (2, 3)]
    told = story.tell(ev.Failed, request=1, leg=sent[0].leg, kind="client")
    assert [c.request for c in told if isinstance(c, SendPrefill)] == [2]


def test_a_prefiller_that_leaves_is_removed_once_it_keeps_no_prompt():
    story = split(slots=2)
    (sent,) = [c for c in story.arrives(1) if isinstance(c, SendPrefill)]
    assert not [c for c in story.tell(ev.WorkerRemoved, worker="p") if isinstance(c, Removed)]
    told = story.tell(ev.PrefillDone, request=1, leg=sent.leg)
    (decode,) = story.tick()
    assert not [c for c in told if isinstance(c, Removed)]
    story.chunk(decode.row)
    assert Removed("p") in story.tick() and not story.d.parts.prefills.prefiller_of


def test_requests_that_wait_go_without_a_prefill_when_the_last_prefiller_leaves():
    story = split()
    (sent,) = [c for c in story.arrives(1) if isinstance(c, SendPrefill)]
    story.arrives(2)
    told = [*story.tell(ev.WorkerRemoved, worker="p"), *story.tick()]
    assert [c.request for c in told if isinstance(c, SendDecode)] == [2]
    told = [*story.tell(ev.PrefillDone, request=1, leg=sent.leg), *story.tick()]
    assert [c.request for c in told if isinstance(c, SendDecode)] == [1]


def test_a_counted_prompt_that_a_reading_already_contains_is_not_charged_again():
    story = split(slots=2)
    (sent,) = [c for c in story.arrives(1, prompt_tokens=40_000) if isinstance(c, SendPrefill)]
    story.tell(ev.Sampled, worker="p", running=1, waiting=0, kv_used=0.4)
    story.tell(ev.PrefillDone, request=1, leg=sent.leg, prompt_tokens=50_000)
    assert story.d.fleet.prefill.free("p") == 0.5, "the reading tells what the prompt takes"
    (other,) = [c for c in story.arrives(2, prompt_tokens=10_000) if isinstance(c, SendPrefill)]
    story.tell(ev.PrefillDone, request=2, leg=other.leg, prompt_tokens=20_000)
    assert story.d.fleet.prefill.free("p") == pytest.approx(0.3), "no reading has the second prompt"
