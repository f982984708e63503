"""The host's own word on workers that run nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.routing import view as at
from evenstep.routing.check_views import tight_views
from evenstep.routing.checks import held_beside_idle, kernel_call
from evenstep.routing.idle import send_to_idle
from evenstep.routing.policies.least_load import LeastLoad
from evenstep.routing.view import HOLD, RoutingDecision, broken_rule


def filled(view, worker):
    """The answer with what the host adds, and how many that are."""
    (_, _, _, _, first, waiting, workers_i, workers_f, _, waiting_f, *_) = kernel_call(LeastLoad(), view).arguments
    answer = worker.copy()
    return answer, send_to_idle(first, waiting, workers_i, workers_f, waiting_f, answer)


@given(st.integers(0, 119), st.randoms(use_true_random=False))
def test_whatever_part_of_an_answer_is_held_no_idle_worker_is_left_beside_what_fits_it(number, random):
    view = list(tight_views(0, 0))[number]
    worker = LeastLoad().route(view).worker.copy()
    for i in range(worker.size):
        if random.random() < 0.7:
            worker[i] = HOLD
    answer, added = filled(view, worker)
    assert not held_beside_idle(view, answer) and not broken_rule(view, RoutingDecision(answer))
    assert added == np.count_nonzero(answer != worker)
    assert (answer[worker != HOLD] == worker[worker != HOLD]).all()
    assert (added > 0) == bool(held_beside_idle(view, worker))


def test_the_oldest_that_fits_goes_and_the_lowest_worker_first():
    workers_i, workers_f, waiting_f = np.zeros((4, 3), np.int64), np.zeros((4, 3)), np.zeros((3, 4))
    workers_i[at.FREE_SLOTS], workers_f[at.KV_FREE] = 1, [0.0, 100.0, 300.0]
    waiting_f[at.WAITING_LOAD] = [200.0, 90.0, 250.0, 10.0]
    answer = np.full(4, HOLD)
    assert send_to_idle(0, 4, workers_i, workers_f, waiting_f, answer) == 2
    assert answer.tolist() == [2, 1, HOLD, HOLD]
