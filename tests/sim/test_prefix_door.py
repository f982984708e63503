"""Prefix caches in the compiled simulator: the reference shows the same ones, and both doors count the same hits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sim.doors import differences
from tests.sim.policies import Fingerprint
from tests.sim.test_prefix_caches import trace_of
from tests.strategies import clusters, small_traces, with_blocks

from evenstep.errors import PolicyError
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.policies.jsq import JSQ
from evenstep.routing.policies.prefix_affinity import PrefixAffinity
from evenstep.routing.view import RoutingDecision
from evenstep.sim.cluster.simulation import Cluster, simulate

quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def runs(draw):
    """A trace with prefix blocks and a fleet that keeps track of them."""
    trace = draw(with_blocks(draw(small_traces())))
    cluster = draw(clusters(trace))
    return trace, dataclasses.replace(cluster, prefix_cache_blocks=draw(st.sampled_from([1, 3, 20])))


@quick
@given(runs())
def test_every_view_shows_what_the_reference_shows(run):
    assert differences(run[0], Fingerprint(), cluster=run[1]) == []


@quick
@given(runs())
def test_both_doors_of_a_policy_that_looks_at_no_caches_count_the_same_hits(run):
    assert differences(run[0], JSQ(), cluster=run[1], doors=("compiled", "plain"), seed=3) == []


def test_keeping_track_changes_no_decision_of_a_policy_that_does_not_look():
    trace = trace_of(*((5 + i % 7, [i % 3, 3 + i % 2]) for i in range(60)))
    fleet = Cluster(3, 4, pool=8)
    watched = simulate(trace, JSQ(), cluster=dataclasses.replace(fleet, prefix_cache_blocks=8))
    unwatched = simulate(trace, JSQ(), cluster=fleet)
    assert watched.digest == unwatched.digest
    assert "prefix_hit_share" not in unwatched.summary and 0 < watched.summary["prefix_hit_share"] < 1


def test_affinity_hits_what_counting_misses():
    trace = trace_of(*((8, [i * 7 % 5, 10 + i * 7 % 5]) for i in range(100)))
    fleet = Cluster(5, 8, pool=4, prefix_cache_blocks=4)
    share = {type(p): simulate(trace, p, cluster=fleet).summary["prefix_hit_share"] for p in (FCFS(), PrefixAffinity())}
    assert share == {FCFS: 0.0, PrefixAffinity: 0.95}  # every key is cold once


def test_a_policy_that_breaks_its_contract_is_named_as_ever():
    @dataclasses.dataclass(frozen=True)
    class Elsewhere:
        def route(self, view):
            return RoutingDecision(np.full(view.waiting_id.size, 99))

    with pytest.raises(PolicyError, match="unknown worker 99"):
        simulate(trace_of((4, [1])), Elsewhere(), cluster=Cluster(2, prefix_cache_blocks=4))
