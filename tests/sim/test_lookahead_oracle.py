"""When the reference asks a predictor, and what it makes of the answers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.cluster import simulate_reference
from tests.sim.policies import Scripted

from evenstep.cost.linear import Linear
from evenstep.predict.view import Prediction
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster, Outage

HORIZON = 4


class Answers:
    """Answers written down beforehand, one (steps_left, leaves) a call; keeps what it was asked and taught."""

    def __init__(self, *answers, refresh_every=100, gate=0.5, refresh="anchored"):
        self.answers, self.calls, self.learnt = list(answers), [], []
        self.refresh_every, self.gate, self.refresh = refresh_every, gate, refresh

    def predict(self, active, horizon):
        assert horizon == HORIZON and active.true_left.size == 0
        self.calls.append((active.request_id.tolist(), active.age.tolist()))
        steps_left, leaves = self.answers.pop(0)
        return Prediction(np.full(active.age.size, steps_left), np.full(active.age.size, leaves))

    def learn(self, finished):
        self.learnt.append((len(self.calls), finished.request_id.tolist(), finished.output_tokens.tolist()))


def projections_of(predictor, steps, **cluster):
    """Worker 0's projections at every boundary while one long request runs and another is held until the end."""
    hold = ((0, -1), *[(-1,)] * steps, (0,))
    policy = Scripted(hold, horizon=HORIZON)
    trace = Trace(np.array([10, 1]), np.array([steps + 1, 1]))
    simulate_reference(
        trace,
        policy,
        cluster=Cluster(1, 2, pool=2, **cluster),
        step_time=Linear(1.0, 0.0),
        predictor=predictor,
    )
    return [view.projections[0].tolist() for view in policy.views[1 : steps + 1]]


def test_a_request_is_present_while_h_is_below_its_steps_left():
    assert projections_of(Answers((2.5, 1.0)), 1) == [[11, 12, 13, 0, 0]]


def test_the_count_goes_down_by_one_a_step_and_its_floor_asks_again():
    predictor = Answers((2.0, 1.0), (3.0, 1.0))
    assert projections_of(predictor, 3) == [[11, 12, 0, 0, 0], [12, 0, 0, 0, 0], [13, 14, 15, 0, 0]]
    assert predictor.calls == [([0], [1]), ([0], [3])]


def test_an_answer_below_one_counts_as_one_step():
    assert projections_of(Answers((0.25, 1.0)), 1) == [[11, 0, 0, 0, 0]]


@pytest.mark.parametrize("answer", [(1.0, 0.49), (4.0, 1.0)])
def test_an_anchored_request_stays_in_the_window_until_its_next_prediction(answer):
    full = [[10 + a + h for h in range(5)] for a in (1, 2, 3)]
    assert projections_of(Answers(answer), 3) == full


def test_the_literal_reading_counts_down_from_the_horizon():
    shown = projections_of(Answers((1.0, 0.0), refresh="literal"), 3)
    assert shown == [[11, 12, 13, 14, 0], [12, 13, 14, 0, 0], [13, 14, 0, 0, 0]]


def test_a_prediction_is_refreshed_after_enough_produced_tokens():
    predictor = Answers((4.0, 1.0), (1.0, 1.0), refresh_every=2)
    assert projections_of(predictor, 3)[2] == [13, 0, 0, 0, 0]
    assert predictor.calls == [([0], [1]), ([0], [3])]


def test_the_gate_is_the_predictors():
    assert projections_of(Answers((2.0, 0.25), gate=0.25), 1) == [[11, 12, 0, 0, 0]]


def test_what_is_due_together_is_one_call_in_order_of_worker_and_request():
    predictor = Answers((9.0, 1.0))
    policy = Scripted(((1, 0, 1, -1), (-1,), (-1,), (0,)), horizon=HORIZON)
    trace = Trace(np.array([1, 1, 1, 1]), np.array([3, 3, 3, 1]))
    simulate_reference(trace, policy, cluster=Cluster(2, 3, pool=4), step_time=Linear(1.0, 0.0), predictor=predictor)
    assert predictor.calls == [([1, 0, 2], [1, 1, 1])]


def test_completions_are_learnt_before_the_next_prediction():
    predictor = Answers((9.0, 1.0), (9.0, 1.0))
    trace = Trace(np.array([1, 1, 1, 1, 1]), np.array([6, 1, 2, 6, 1]))
    policy = Scripted(((1, 0, 0, -1, -1), (0, -1), (-1,), (0,)), horizon=HORIZON)
    simulate_reference(trace, policy, cluster=Cluster(2, 2, pool=5), step_time=Linear(1.0, 0.0), predictor=predictor)
    # call 1 at clock 1: row 1 has ended; row 2 ends at 2, when nothing is asked but row 3, admitted at clock 1
    assert predictor.calls == [([2, 0], [1, 1]), ([3], [1])]
    assert predictor.learnt == [(0, [1], [1]), (1, [2], [2])]


def test_a_request_that_comes_back_is_predicted_anew():
    predictor = Answers((9.0, 1.0), (9.0, 1.0))
    policy = Scripted(((0, -1), (-1,), (0, -1), (-1,), (0,)), horizon=HORIZON)
    outages = (Outage(2, 0), Outage(2, 0, back=True))
    cluster = Cluster(1, 1, queue_depth=1, pool=2, outages=outages)
    trace = Trace(np.array([10, 1]), np.array([4, 1]))
    simulate_reference(trace, policy, cluster=cluster, step_time=Linear(1.0, 0.0), predictor=predictor)
    assert predictor.calls == [([0], [1]), ([0], [3])]
    assert policy.views[2].waiting_load.tolist() == [12, 1]
    assert policy.views[3].projections.tolist() == [[13, 14, 15, 16, 17]]
