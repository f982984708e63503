"""Requests that arrive, one by one and in batches."""

from __future__ import annotations

from collections import deque

import pytest
from tests.dispatch.batches import Batches, state
from tests.dispatch.told import Story

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Reject, SendDecode
from evenstep.dispatch.settings import Settings, TenantLimits
from evenstep.errors import InputError


def arrivals(*requests: int, **fields) -> deque[ev.Event]:
    return deque(ev.Arrived(now_s=1.0, request=r, prompt_tokens=9, **fields) for r in requests)


def one_worker(**options) -> Story:
    story = Story("jsq", **options)
    story.worker("a", slots=9)
    return story


def test_a_request_of_no_tokens_is_refused():
    with pytest.raises(InputError, match="prompt_tokens is 0"):
        one_worker().arrives(2, prompt_tokens=0)


@pytest.mark.parametrize("wrong", [{"prompt_tokens": 0}, {"copies": 0}])
def test_a_wrong_request_in_a_batch_stands_first_when_it_is_refused_and_the_rest_can_follow(wrong):
    story = one_worker()
    events = arrivals(1, 2, 3)
    events.insert(2, ev.Arrived(**{"now_s": 1.0, "request": 7, "prompt_tokens": 5, **wrong}))
    with pytest.raises(InputError, match="expected an integer >= 1"):
        story.d.handle_all(events)
    assert [event.request for event in events] == [7, 3]
    events.popleft()
    told = story.d.handle_all(events, ticks=True)
    assert [c.request for c in told if isinstance(c, SendDecode)] == [1, 2, 3]


def test_a_request_that_is_told_twice_is_a_bug_of_the_host():
    story = one_worker()
    with pytest.raises(RuntimeError, match="request 1 arrived twice"):
        story.d.handle_all(arrivals(1, 1))
    story.d.check()


def test_a_batch_is_cut_where_the_pool_is_full():
    story = one_worker(pool_limit=2)
    told = story.d.handle_all(arrivals(1, 2, 3, 4))
    assert [(c.request, c.reason) for c in told if isinstance(c, Reject)] == [
        (3, "pool-full"),
        (4, "pool-full"),
    ]
    story.d.check()


def test_those_that_wait_for_a_prefiller_count_in_the_pool_too():
    story = Story("jsq", pool_limit=2)
    story.worker("p", role="prefill", kv_tokens=100)
    story.worker("a", slots=9)
    sent = 0
    while any(type(command).__name__ == "SendPrefill" for command in story.arrives(sent, 80)):
        sent += 1
    assert story.arrives(sent + 1, 80) == []  # that and the one before wait for the prefiller
    (refused,) = story.arrives(sent + 2, 80)
    assert isinstance(refused, Reject) and refused.reason == "pool-full"


def test_a_log_has_no_verdict_where_no_tenant_has_limits():
    log = []
    one_worker(log=log.append).d.handle_all(arrivals(1, tenant="t"))
    assert [event.judged for event in log if isinstance(event, ev.Arrived)] == [""]


def test_a_log_has_what_the_limits_of_a_tenant_said_of_each_request_of_a_batch():
    log = []
    settings = {"tenants": {"t": TenantLimits(concurrent=2)}}
    story = one_worker(log=log.append, **settings)
    story.d.handle_all(arrivals(1, 2, 3, tenant="t"))
    assert [event.judged for event in log if isinstance(event, ev.Arrived)] == ["in", "in", "tenant-limit"]
    assert isinstance(story.d.settings, Settings)


def test_a_prompt_that_is_counted_by_row_is_what_its_event_leaves():
    found = []
    for is_by_row in (True, False):
        story = Batches(0)
        d = story.d
        d.handle(ev.Reloaded(now_s=0.0, policy="jsq:ties=lowest", settings=None))
        story.one_by_one([ev.Arrived(now_s=1.0, request=1, prompt_tokens=30)])
        story.one_by_one([ev.Tick(now_s=1.0)])
        row = d.rows.by_request[1]
        d.now_s = 1.5
        d.produced(row, 1)
        before = state(d)
        if is_by_row:
            d.counted(row, 44)
        else:
            assert d.handle(ev.PromptCounted(now_s=1.5, request=1, prompt_tokens=44)) == []
        assert state(d) != before
        found.append(state(d))
    assert found[0] == found[1]
