"""The decision cut by stage is the decision."""

from __future__ import annotations

import numpy as np

from evenstep.experiments.papers.balance_route.br_overhead import captured, stage_call
from evenstep.experiments.papers.balance_route.stages_kernel import (
    STAGE_ONE,
    STAGE_TWO,
    decide_until,
    project_all,
)
from evenstep.experiments.reproduce import Setting
from evenstep.routing.view import HOLD


def test_all_stages_together_answer_as_the_whole_kernel_and_stage_one_alone_sends_no_more():
    policy, views, step_s = captured(Setting(quick=True), 4, 0)
    assert step_s > 0.06
    compared = 0
    for view in views:
        if view.waiting_id.size == 0 or view.free_slots.sum() == 0:
            continue
        call, arguments = stage_call(policy, view)
        whole = call.decision().worker.copy()
        decide_until(STAGE_TWO, 2, *arguments)
        assert np.array_equal(call.worker, whole)
        decide_until(STAGE_ONE, 1, *arguments)
        sent = call.worker != HOLD
        assert np.array_equal(call.worker[sent], whole[sent])
        compared += 1
    assert compared > 20


def test_projections_are_read_for_every_worker():
    workers_i = np.ones((4, 2), np.int64)
    workers_f = np.full((4, 2), 10.0)
    counts, loads, projected = np.zeros((2, 8), np.int64), np.zeros((2, 8), np.int64), np.zeros((2, 4))
    counts[0, 2], loads[0, 2] = 1, 12  # its one request leaves after two steps, at a load of 12
    project_all(1, workers_i, workers_f, counts, loads, projected)
    assert projected.tolist() == [[10.0, 11.0, 0.0, 0.0], [10.0, 11.0, 12.0, 13.0]]
