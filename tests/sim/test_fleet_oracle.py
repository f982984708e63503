"""Workers, groups and loads of the reference simulator."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.fleet import Job, Loads, build

from evenstep.request import Trace
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster

TRACE = Trace(np.array([4, 10]), np.array([5, 7]))


def test_workers_are_numbered_through_the_groups():
    groups = build(Cluster(3, (1, 2, 4), groups=(1, 2)))
    assert [[(w.index, w.slots) for w in g.workers] for g in groups] == [[(0, 1)], [(1, 2), (2, 4)]]
    assert [g.index for g in groups] == [0, 1] and len(build(Cluster(3, 1))) == 1


def test_the_last_load_of_a_profile_goes_on():
    loads = Loads(TRACE, Cluster(1, 1, drift=Drift(profiles=Profiles(np.array([5.0, 1.0, 7.0]), np.array([0, 2, 3])))))
    assert [loads.at(0, step) for step in range(4)] == [5, 1, 1, 1] and loads.at(1, 0) == 7


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=5), st.integers(0, 12))
def test_a_sequence_grows_a_load_step_by_step(sequence, step):
    loads = Loads(TRACE, Cluster(1, 1, drift=Drift(sequence=tuple(float(x) for x in sequence))))
    grown = 10 + sum(sequence[min(j, len(sequence) - 1)] for j in range(step))
    assert loads.at(1, step) == max(0, grown)


def test_the_last_step_yields_what_is_left_of_the_output():
    loads = Loads(TRACE, Cluster(1, 1, drift=Drift(growth=3, tokens_per_step=3)))
    job = Job(1, 3, 0.0, 0.0)
    assert [loads.tokens(job, done) for done in range(4)] == [0, 3, 6, 7]
    job.done = 2
    assert loads.age(job) == 6
