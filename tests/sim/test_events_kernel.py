"""The events between two steps, each kind alone: what comes next, and the reference's records."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim.doors import differences
from tests.sim.kernels import put, state
from tests.sim.policies import Fingerprint, Oldest

from evenstep.compiled import as_plain, column
from evenstep.request import Trace
from evenstep.sim.cluster import events as events_kernel
from evenstep.sim.cluster import model as at
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster, Outage

next_event = as_plain(events_kernel.next_event)


class Moment:
    """Two groups that are inside a step until the times given (None = idle), and requests arriving."""

    def __init__(self, *ends: float | None, arrival=(), cursor=0, **cluster) -> None:
        ones = np.ones(max(1, len(arrival)), np.int64)
        trace = Trace(ones, ones, arrival_s=np.array([*arrival] or [9.0]))
        self.run = state(trace, arrivals="timed", workers=2, slots=1, groups=(1, 1), **cluster).run
        put(self.run.now, now_s=1.0, cursor=cursor)
        self.run.fixed.requests = len(arrival)
        for group, end in zip(self.run.fleet.groups, ends, strict=True):
            put(group, busy=end is not None, end_s=end or 0.0)

    def next(self) -> tuple[int, int, float, list[int]]:
        """Status, phase, time, groups at their boundary."""
        run = self.run
        status = next_event(run)
        return status, int(run.now.phase), run.now.now_s, column(run.fleet.groups, "boundary").tolist()


def test_groups_that_end_together_are_at_their_boundary_together():
    assert Moment(2.0, 3.0).next() == (at.RUNNING, at.COMPLETE, 2.0, [1, 0])
    assert Moment(2.0, 2.0).next() == (at.RUNNING, at.COMPLETE, 2.0, [1, 1])


def test_an_arrival_wakes_an_idle_group_and_waits_for_busy_ones():
    assert Moment(2.0, None, arrival=[1.5]).next() == (at.RUNNING, at.REVEAL, 1.5, [0, 0])
    assert Moment(2.0, 3.0, arrival=[1.5]).next() == (at.RUNNING, at.COMPLETE, 2.0, [1, 0])
    assert Moment(2.0, 3.0, arrival=[1.5], dispatch="instant").next() == (at.RUNNING, at.REVEAL, 1.5, [0, 0])


def test_a_tie_goes_to_the_step_and_time_never_runs_back():
    assert Moment(1.5, None, arrival=[1.5]).next() == (at.RUNNING, at.COMPLETE, 1.5, [1, 0])
    assert Moment(None, None, arrival=[0.5]).next() == (at.RUNNING, at.REVEAL, 1.0, [0, 0])


def test_with_nothing_to_come_the_run_is_done_or_stuck():
    assert Moment(None, None).next()[0] == at.DONE
    assert Moment(None, None, arrival=[0.5], cursor=1).next()[0] == at.STUCK


ROWS = 30
RANDOM = np.random.default_rng(5)
LENGTHS = RANDOM.integers(1, 9, ROWS)
TRACE = Trace(RANDOM.integers(1, 20, ROWS), LENGTHS, arrival_s=np.cumsum(RANDOM.integers(0, 3, ROWS) / 4))
SESSIONS = Trace(
    TRACE.prompt_tokens,
    LENGTHS,
    session=np.arange(ROWS) % 7,
    after=np.where(np.arange(ROWS) < 7, -1, np.arange(ROWS) - 7),
    think_s=np.full(ROWS, 0.5),
)
PROFILES = Profiles(RANDOM.integers(1, 30, LENGTHS.sum()) / 4, np.concatenate([[0], np.cumsum(LENGTHS)]))
LOST = (Outage(2, 0), Outage(4, 2), Outage(6, 0, back=True), Outage(9, 2, back=True))
KINDS = {
    "completions": {},
    "timed": {"arrivals": "timed"},
    "prefill": {"arrivals": "timed", "prefill_base_s": 0.5, "prefill_per_token_s": 0.125},
    "users": {"arrivals": "closed", "users": 5, "think_s": 0.5},
    "sessions": {"arrivals": "closed", "users": 3},
    "queues": {"queue_depth": 2, "pool": 20},
    "instant": {"dispatch": "instant", "queue_depth": 1, "arrivals": "timed"},
    "outages": {"outages": LOST},
    "outages of queues": {"outages": LOST, "queue_depth": 3},
    "overflow": {"kv_tokens": 30.0},
    "overflow with a reserve": {"kv_tokens": 40.0, "kv_reserve": 2.5, "queue_depth": 1},
    "groups": {"groups": (2, 1)},
    "groups with outages": {"groups": (1, 2), "outages": LOST, "arrivals": "timed"},
    "speculative": {"drift": Drift(growth=2.0, tokens_per_step=2)},
    "sequence": {"drift": Drift(sequence=(1.0, -0.5))},
    "profiles": {"drift": Drift(profiles=PROFILES), "outages": LOST},
}


@pytest.mark.parametrize("policy", [Oldest(), Fingerprint()], ids=["oldest", "fingerprint"])
@pytest.mark.parametrize("kind", KINDS)
def test_events_of_every_kind_leave_the_references_records(kind, policy):
    cluster = Cluster(**{"workers": 3, "slots": 2, "pool": 8} | KINDS[kind])
    trace = SESSIONS if kind == "sessions" else TRACE
    assert differences(trace, policy, cluster=cluster) == []
