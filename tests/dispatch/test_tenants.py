"""A tenant's limits are one, however many models it asks for; what they said is in each model's log."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.commands import Reject
from evenstep.dispatch.log.file import LogFile
from evenstep.dispatch.replay import replay
from evenstep.dispatch.requests.tenants import Present, Tenants, retry_after
from evenstep.dispatch.settings import TenantLimits


def two_models(limits, **more):
    """Two dispatchers of one host."""
    tenants = Tenants()
    stories = [Story("jsq", tenants={"t": limits}, **more), Story("jsq", tenants={"t": limits})]
    for story in stories:
        story.d.parts.limits.share(tenants)
        story.worker("a", slots=1)
    return stories


def test_what_a_tenant_has_at_all_models_counts():
    one, other = two_models(TenantLimits(concurrent=2))
    sent = one.sent(1, tenant="t")
    assert other.arrives(2, tenant="t") == []
    assert one.arrives(3, tenant="t") == [Reject(3, 429, "tenant-limit", 1)]
    assert other.arrives(4, tenant="t") == [Reject(4, 429, "tenant-limit", 1)]
    assert other.arrives(5, tenant="u") == []
    one.finishes(sent)
    assert other.arrives(6, tenant="t") == []
    for story in (one, other):
        story.d.check()


def test_those_that_wait_are_counted_by_themselves():
    one, other = two_models(TenantLimits(waiting=1))
    one.sent(1, tenant="t")
    assert other.arrives(2, tenant="t") == []
    assert one.arrives(3, tenant="t") == [Reject(3, 429, "tenant-limit", 1)]


def test_a_rate_is_one_and_its_time_never_goes_back():
    tenants, limits = Tenants(), TenantLimits(per_s=0.5, burst=2)
    assert [tenants.refusal("a", limits, 0.0, now_s) for now_s in (5.0, 4.0, 3.0)] == [
        None,
        None,
        (429, "rate-limit", 2),
    ]
    assert tenants.refusal("a", limits, 0.0, 7.0) is None
    assert tenants.refusal("b", limits, 0.0, 7.0) is None


@pytest.mark.parametrize("limits", [TenantLimits(concurrent=2), TenantLimits(per_s=0.001, burst=2)])
def test_a_log_replays_without_the_other_models(tmp_path, limits):
    log = LogFile(tmp_path / "log.jsonl", part_bytes=600)
    one, other = two_models(limits, log=log)
    sent = one.sent(1, tenant="t")
    other.sent(1, tenant="t")
    refused = [one.arrives(request, tenant="t") for request in (2, 3)]
    assert all(isinstance(command, Reject) and command.status == 429 for (command,) in refused)
    one.finishes(sent)
    one.sent(4, tenant="u")
    log.close()
    whole = replay(tmp_path / "log.jsonl")
    assert (whole.difference, whole.decisions) == (None, 2)
    assert len(list(tmp_path.iterdir())) > 1
    assert replay(tmp_path / "log.1.jsonl").difference is None


def test_a_wait_is_told_in_whole_seconds():
    assert [retry_after(seconds) for seconds in (0.0, 3.2, 1e9)] == [1, 4, 60]
    assert Present("t") == Present("t", requests=0, waiting=0)
