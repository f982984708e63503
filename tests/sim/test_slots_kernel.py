"""Slots and queues of the compiled cluster."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import put, state

from evenstep.compiled import as_plain, column, fill
from evenstep.request import Trace
from evenstep.sim.cluster import slots as slots_kernel
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.model import LINEAR, SEQUENCE

weight, steps_of = as_plain(slots_kernel.weight), as_plain(slots_kernel.steps_of)
enqueue, dequeue = as_plain(slots_kernel.enqueue), as_plain(slots_kernel.dequeue)
ONE = Trace(np.array([100]), np.array([6]))


def weights(run, row: int, steps: int) -> list[int]:
    return [weight(run.fixed, run.requests, row, age) for age in range(steps)]


def test_a_linear_request_gains_the_same_every_step():
    assert weights(state(ONE, drift=Drift(growth=3.0)).run, 0, 3) == [100, 103, 106]


def test_gains_of_a_sequence_last_and_never_go_below_zero():
    run = state(ONE, drift=Drift(sequence=(1.0,))).run
    run = run._replace(requests=run.requests._replace(profile=np.array([0, -30, -120, 5])))
    assert weights(run, 0, 6) == [100, 70, 0, 105, 105, 105]


def two_profiles():
    """Two requests, with loads of 40 and 41, and of 50."""
    trace = Trace(np.array([40, 50]), np.array([2, 1]))
    return state(trace, drift=Drift(profiles=Profiles(np.array([40.0, 41.0, 50.0]), np.array([0, 2, 3])))).run


def test_a_profile_is_the_requests_own_and_keeps_its_last_load():
    run = two_profiles()
    assert weights(run, 0, 4) == [40, 41, 41, 41]
    assert weights(run, 1, 2) == [50, 50]


@pytest.mark.parametrize(("tokens_a_step", "steps"), [(1, [1, 4, 5]), (2, [1, 2, 3]), (4, [1, 1, 2])])
def test_the_last_step_may_make_fewer_tokens(tokens_a_step, steps):
    run = state(Trace(np.ones(3, int), np.array([1, 4, 5])), drift=Drift(tokens_per_step=tokens_a_step)).run
    assert [steps_of(run.fixed, run.requests, row) for row in range(3)] == steps


def test_a_request_with_a_profile_runs_as_long_as_its_profile():
    run = two_profiles()
    assert [steps_of(run.fixed, run.requests, row) for row in range(2)] == [2, 1]


def test_the_longest_is_looked_for_only_when_it_is_not_known():
    trace = Trace(np.array([1] * 7 + [10, 13]), np.ones(9, int))
    run = state(trace, workers=2, slots=3, drift=Drift(growth=2.0)).run
    for slot, row, units, admit in ((0, -1, 90, 0), (1, 7, 10, 1), (2, 8, 13, 4)):
        put(run.slots.rows[slot], row=row, units=units, admit=admit)

    def longest(g, step, run=run):
        return as_plain(slots_kernel.longest_units)(run, g, step)

    assert [longest(0, 4), longest(1, 4)] == [16, 0]  # 10 and three steps of 2; no request
    assert column(run.fleet.workers, "longest_slot").tolist() == [1, -1]
    run.fleet.workers[0].longest_slot = 2  # what is known is not looked for
    assert (run.fixed.profile_kind, longest(0, 5)) == (LINEAR, 15)
    run.fixed.profile_kind = SEQUENCE  # loads that may fall are
    falling = run._replace(requests=run.requests._replace(profile=np.array([0, -30, 0, 1, 1, 9])))
    assert longest(0, 5, falling) == 11


@pytest.mark.parametrize(("up", "running", "queued", "free"), [(1, 1, 0, 5), (1, 3, 2, 1), (1, 3, 3, 0), (0, 0, 0, 0)])
def test_a_worker_may_be_sent_what_fits_its_slots_and_its_queue(up, running, queued, free):
    run = state(workers=1, slots=3, queue_depth=3).run
    fleet, run.now.free_total = run.fleet, 10
    fleet.free_slots[0], fleet.running[0], fleet.queued[0] = 4, running, queued
    fleet.workers[0].up = up
    as_plain(slots_kernel.set_free)(run, 0)
    assert fleet.free_slots[0] == free
    assert run.now.free_total == 10 + free - 4


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_queues_are_first_in_first_out_and_share_their_places(moves):
    run = state(workers=3, slots=1).run
    run.fixed.unit = 0.5
    fill(run.fleet.groups, queued=0)
    model = [deque(), deque(), deque()]
    for row, (g, leaves) in enumerate(moves):
        if leaves and model[g]:
            node = run.queues[dequeue(run, g)]
            assert (node.row, node.since_s) == model[g].popleft()
        else:
            enqueue(run, row, g, 2 * row, float(row))
            model[g].append((row, float(row)))
        assert run.fleet.queued.tolist() == [len(queue) for queue in model]
        assert run.fleet.queued_load.tolist() == [sum(row for row, _ in queue) for queue in model]
        assert run.now.queued_all == run.fleet.groups[0].queued == sum(len(queue) for queue in model)
