"""The decision cut by stage is the decision."""

from __future__ import annotations

import numpy as np

from evenstep.experiments.papers.balance_route.br_overhead import captured, until_stage
from evenstep.experiments.papers.balance_route.stages import project_all
from evenstep.experiments.reproduce import Setting
from evenstep.routing.balance_route.assign import PREPARATION, STAGE_ONE, STAGE_TWO
from evenstep.routing.view import HOLD


def test_all_stages_together_answer_as_the_policy_and_the_first_ones_alone_send_no_more():
    policy, views, step_s = captured(Setting(quick=True), 4, 0)
    assert step_s > 0.06
    compared = shared = 0
    for view in views:
        if view.waiting_id.size == 0 or view.free_slots.sum() == 0:
            continue
        whole = policy.route(view).worker
        answers = {
            stage: until_stage(policy, view, stage, 2).decision().worker for stage in (PREPARATION, STAGE_ONE, STAGE_TWO)
        }
        assert np.array_equal(answers[STAGE_TWO], whole)
        assert (answers[PREPARATION] == HOLD).all()
        sent = answers[STAGE_ONE] != HOLD
        assert np.array_equal(answers[STAGE_ONE][sent], whole[sent])
        compared, shared = compared + 1, shared + (0 < sent.sum() < (whole != HOLD).sum())
    assert compared > 20
    assert shared > 0


def test_projections_are_read_for_every_worker():
    load, running = np.full(2, 10), np.ones(2, np.int64)
    counts, loads, projected = np.zeros((2, 8), np.int64), np.zeros((2, 8), np.int64), np.zeros((2, 4))
    counts[0, 2], loads[0, 2] = 1, 12  # its one request leaves after two steps, at a load of 12
    project_all(1, load, running, counts, loads, projected)
    assert projected.tolist() == [[10.0, 11.0, 0.0, 0.0], [10.0, 11.0, 12.0, 13.0]]
