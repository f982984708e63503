"""Slots and queues of the compiled cluster."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.kernels import float_scalars, plainly, scalars

from evenstep.routing.view import FREE_SLOTS, QUEUED, QUEUED_LOAD
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim import cluster_layout as at
from evenstep.sim import slots_kernel

NOTHING = np.zeros(0, np.int64)
weight, steps_of = plainly(slots_kernel.weight), plainly(slots_kernel.steps_of)
enqueue, dequeue = plainly(slots_kernel.enqueue), plainly(slots_kernel.dequeue)


def test_a_linear_request_gains_the_same_every_step():
    assert [weight(0, 0, age, 100, 3, NOTHING) for age in range(3)] == [100, 103, 106]


def test_gains_of_a_sequence_last_and_never_go_below_zero():
    gains = np.array([0, -30, -120, 5])
    assert [weight(1, 0, age, 100, 0, gains) for age in range(6)] == [100, 70, 0, 105, 105, 105]


def test_a_profile_is_the_requests_own_and_keeps_its_last_load():
    profile = np.array([3, 5, 6, 40, 41, 50])  # two requests: loads 3..4 and 5
    assert [weight(2, 0, age, 0, 0, profile) for age in range(4)] == [40, 41, 41, 41]
    assert [weight(2, 1, age, 0, 0, profile) for age in range(2)] == [50, 50]


@pytest.mark.parametrize(("tokens_a_step", "steps"), [(1, [1, 4, 5]), (2, [1, 2, 3]), (4, [1, 1, 2])])
def test_the_last_step_may_make_fewer_tokens(tokens_a_step, steps):
    sc = scalars(tokens_per_step=tokens_a_step)
    assert [steps_of(sc, row, np.array([1, 4, 5]), NOTHING) for row in range(3)] == steps


def test_a_request_with_a_profile_runs_as_long_as_its_profile():
    sc = scalars(tokens_per_step=1, profile_kind=2)
    assert [steps_of(sc, row, NOTHING, np.array([3, 5, 6, 40, 41, 50])) for row in range(2)] == [2, 1]


def test_the_longest_is_looked_for_only_when_it_is_not_known():
    sc = scalars(slots_max=3, delta=2, scale=1)
    slots, worker_i = np.zeros((6, 8), np.int64), np.full((at.WORKER_ROWS, 2), -1)
    slots[:, at.ROW] = [-1, 7, 8, -1, -1, -1]
    slots[:, at.LOAD0], slots[:, at.ADMIT] = [90, 10, 13, 0, 0, 0], [0, 1, 4, 0, 0, 0]

    def longest(g, step):
        return plainly(slots_kernel.longest_units)(sc, worker_i, slots, NOTHING, NOTHING, g, step)

    assert [longest(0, 4), longest(1, 4)] == [16, 0]  # 10 and three steps of 2; nobody
    assert worker_i[at.LONGEST_SLOT].tolist() == [1, -1]
    worker_i[at.LONGEST_SLOT, 0] = 2  # what is known is not looked for
    assert longest(0, 5) == 15
    sc[at.PROFILE_KIND] = 1  # loads that may fall are
    prompt, gains = np.array([0] * 7 + [10, 13]), np.array([0, -30, 0, 1, 1, 9])
    assert plainly(slots_kernel.longest_units)(sc, worker_i, slots, prompt, gains, 0, 5) == 11


@pytest.mark.parametrize(
    ("up", "running", "queued", "free"), [(1, 1, 0, 5), (1, 3, 2, 1), (1, 3, 3, 0), (0, 0, 0, 0)]
)
def test_a_worker_may_be_sent_what_fits_its_slots_and_its_queue(up, running, queued, free):
    sc, wi, worker_i = (
        scalars(depth=3, free_total=10),
        np.zeros((4, 1), np.int64),
        np.zeros((4, 1), np.int64),
    )
    wi[FREE_SLOTS, 0], wi[ON_WORKER, 0], wi[QUEUED, 0] = 4, running, queued
    worker_i[at.SLOTS_OF, 0], worker_i[at.UP, 0] = 3, up
    plainly(slots_kernel.set_free)(sc, wi, worker_i, 0)
    assert wi[FREE_SLOTS, 0] == free
    assert sc[at.FREE_TOTAL] == 10 + free - 4


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_queues_are_first_in_first_out_and_share_their_places(moves):
    sc, sf = scalars(), float_scalars(unit=0.5)
    wi, wf = np.zeros((4, 3), np.int64), np.zeros((4, 3))
    worker_i, group_i = np.full((4, 3), -1), np.zeros((9, 1), np.int64)
    nodes, times = np.zeros((40, 3), np.int64), np.zeros(40)
    nodes[:, at.Q_NEXT] = [*range(1, 40), -1]
    model = [deque(), deque(), deque()]
    for row, (g, leaves) in enumerate(moves):
        if leaves and model[g]:
            node = dequeue(sc, sf, wi, wf, worker_i, group_i, nodes, g)
            assert (nodes[node, at.Q_ROW], times[node]) == model[g].popleft()
        else:
            enqueue(sc, sf, wi, wf, worker_i, group_i, nodes, times, row, g, 2 * row, float(row))
            model[g].append((row, float(row)))
        assert wi[QUEUED].tolist() == [len(queue) for queue in model]
        assert wf[QUEUED_LOAD].tolist() == [sum(row for row, _ in queue) for queue in model]
        assert sc[at.QUEUED_ALL] == group_i[at.GROUP_QUEUED, 0] == sum(len(queue) for queue in model)
