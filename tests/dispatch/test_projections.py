"""Projections of running requests: refresh, gate, copies, expected loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.rows import NEVER, Rows
from evenstep.dispatch.rounds.projections import Projections
from evenstep.dispatch.settings import WorkerSpec
from evenstep.dispatch.transitions import State
from evenstep.errors import PolicyError
from evenstep.predict.view import Prediction


@dataclass
class Says:
    """A predictor that says the same of everybody, and remembers what it was asked."""

    steps: float
    leaves: float = 1.0
    refresh_every: int = 4
    gate: float = 0.5

    def __post_init__(self):
        self.asked, self.learned = [], []

    def predict(self, active, horizon):
        self.active = active
        self.asked.append(active.request_id.tolist())
        return Prediction(np.full(active.age.size, self.steps), np.full(active.age.size, self.leaves))

    def learn(self, finished):
        self.learned += finished.request_id.tolist()


class SaysCurve(Says):
    def curve(self, active, horizon):
        return np.tile(0.5 ** np.arange(horizon + 1.0), (active.age.size, 1))


def running(*rows):
    """A table with these running requests: worker, prompt, produced, copies."""
    table = Rows(8)
    for request, (worker, prompt, produced, copies) in enumerate(rows):
        row = table.take(request)
        table.place(row, worker)
        table.at.state[row], table.at.copies[row] = State.RUNNING, copies
        table.at.prompt[row], table.at.produced[row] = prompt, produced
    return table


def mirror_of(load, count):
    """Workers that run so much."""
    mirror = Mirror()
    for g, (tokens, requests) in enumerate(zip(load, count, strict=True)):
        mirror.add(WorkerSpec(name=f"w{g}", scraped=False), 0.0)
        mirror.at.load[g], mirror.at.running[g] = tokens, requests
    return mirror


def project(ahead, table, load, count):
    ahead.forget()
    return ahead.project(table, mirror_of(load, count)).tolist()


def test_who_is_expected_to_leave_counts_until_then():
    table = running((0, 10, 2, 1), (1, 5, 0, 1))
    assert project(Projections(Says(2.0), 3, False), table, [12, 5], [1, 1]) == [[12, 13, 0, 0], [5, 6, 0, 0]]


def test_below_the_gate_and_beyond_the_window_nobody_leaves():
    for says in (Says(2.0, leaves=0.4), Says(3.0)):
        assert project(Projections(says, 3, False), running((0, 10, 2, 1)), [12], [1]) == [[12, 13, 14, 15]]


def test_a_request_is_asked_about_again_after_so_many_tokens_or_when_it_outlived_the_answer():
    says = Says(6.0)
    ahead, table = Projections(says, 8, False), running((0, 10, 0, 1))
    for produced, times in ((0, 1), (3, 1), (4, 2), (7, 2), (8, 3)):
        table.at.produced[0] = produced
        project(ahead, table, [10 + produced], [1])
        assert len(says.asked) == times
    says.steps, table.at.leave[0] = 99.0, 8
    project(ahead, table, [18], [1])
    assert len(says.asked) == 4 and table.at.leave[0] == NEVER


def test_copies_grow_and_leave_together():
    assert project(Projections(Says(2.0), 3, False), running((0, 10, 4, 2)), [14], [2]) == [[14, 16, 0, 0]]


def test_expected_loads_weigh_each_request_by_its_chance_to_be_there():
    ahead = Projections(SaysCurve(2.0), 2, True)
    assert project(ahead, running((0, 7, 1, 1)), [8], [1]) == [[8.0, 4.5, 2.5]]
    assert not Projections(Says(2.0), 2, True).expects  # without a curve as everybody else


def test_by_a_curve_a_request_is_expected_to_leave_where_less_than_half_of_it_is_left():
    class Stays(Says):
        def curve(self, active, horizon):
            return np.ones((active.age.size, horizon + 1))

    for says, leave in ((SaysCurve(0), 7), (Stays(0), NEVER)):
        table = running((0, 10, 5, 1))
        project(Projections(says, 3, True), table, [15], [1])
        assert table.at.leave[0] == leave  # half of it after one token, a quarter after two


def test_who_outlived_its_curve_is_asked_about_again():
    says = SaysCurve(2.0)
    says.curve = lambda active, horizon: (
        says.asked.append(1) or np.tile(np.arange(horizon + 1.0) < 2, (active.age.size, 1)).astype(float)
    )
    ahead, table = Projections(says, 2, True), running((0, 10, 0, 1))
    for produced, times in ((0, 1), (1, 1), (2, 2)):
        table.at.produced[0] = produced
        project(ahead, table, [10 + produced], [1])
        assert len(says.asked) == times


def test_the_predictor_learns_before_it_is_asked_and_in_order():
    says = Says(2.0)
    ahead = Projections(says, 3, False)
    ahead.ended(7, 1, 2, 0)
    ahead.ended(3, 1, 2, 0)
    project(ahead, running((0, 10, 2, 1)), [12], [1])
    assert says.learned == [7, 3]


def test_much_learning_and_many_predictions_take_turns():
    """No turn looks at more than `_LOOKED_AT` requests to learn, or asks about more than `_AT_ONCE`."""

    class Slow(Says):
        left, seen = 0, 0

        def begin(self, finished):
            self.left += 2500
            self.learn(finished)

        def advance(self, rows):
            self.seen = min(rows, self.left)
            self.left -= self.seen
            return 0 if self.left else max(rows - self.seen, 1)

        def predict(self, active, horizon):
            self.was_behind = self.left > 0
            return super().predict(active, horizon)

    slow = Slow(6.0)
    ahead, table = Projections(slow, 8, False), running(*[(0, 10, 2, 1)] * 300)
    mirror = mirror_of([3600], [300])
    ahead.ended(999, 1, 2, 0)
    learned, asked = [], []
    while ahead.has_asked(table, mirror):
        learned.append(slow.seen)
        asked.append(sum(map(len, slow.asked)))
        slow.seen = 0
    assert learned == [1024, 1024, 452, 0, 0, 0]
    assert asked == [0, 0, 0, 128, 256, 300]
    assert not slow.was_behind
    for _ in range(16):
        ahead.ended(1000, 1, 2, 0)
    assert slow.seen == 1024, "completions are learned as they come, a part at each"
    ahead.ended(1001, 1, 2, 0)
    ahead.ended(1002, 1, 2, 0)
    assert slow.left == 0


def test_a_predictor_that_keeps_requests_hears_of_those_that_went_away():
    class Kept(Says):
        def gone(self, unfinished):
            self.learned.append((unfinished.request_id.tolist(), unfinished.output_tokens.tolist()))

    kept, ahead = Kept(2.0), Projections(Says(2.0), 3, False)
    ahead.gone(7, 10, 2, 0)  # it keeps none
    ahead = Projections(kept, 3, False)
    ahead.gone(7, 10, 2, 0)
    assert kept.learned == [([7], [2])]
    kept.gone = lambda unfinished: 1 / 0
    ahead.gone(8, 10, 2, 0)
    with pytest.raises(ZeroDivisionError):
        project(ahead, running((0, 10, 2, 1)), [12], [1])


def test_an_answer_of_another_shape_is_an_error():
    says = Says(2.0)
    says.predict = lambda active, horizon: Prediction(np.zeros(9), np.zeros(9))
    with pytest.raises(PolicyError, match="answered"):
        project(Projections(says, 3, False), running((0, 10, 2, 1)), [12], [1])


@pytest.mark.parametrize("expects", [False, True])
def test_only_workers_that_have_changed_are_looked_at_again(expects):
    ahead, table, mirror = (
        Projections(SaysCurve(2.0), 2, expects),
        running((0, 10, 0, 1), (1, 20, 0, 1)),
        mirror_of([10, 20], [1, 1]),
    )
    first = ahead.project(table, mirror).tolist()
    table.at.produced[0] = table.at.produced[1] = 1
    mirror.at.load[1] = 21.0
    second = ahead.project(table, mirror).tolist()
    assert second[0] == first[0] and second[1] != first[1]
    mirror.at.load[0], mirror.at.foreign_load[0] = 11.0, 5.0
    assert ahead.project(table, mirror).tolist()[0] == ([16.0, 11.0, 8.25] if expects else [16.0, 17.0, 18.0])
    mirror.at.changes[0] += 1
    ahead.gate.predictor.curve = ahead.gate.predictor.predict = None
    assert ahead.project(table, mirror).tolist() == ahead.project(table, mirror).tolist()


def test_what_a_failing_predictor_left_undone_is_done_the_next_time():
    ahead, table, mirror = Projections(Says(1.0), 2, False), running((0, 10, 0, 1)), mirror_of([10], [1])
    predict, ahead.gate.predictor.predict = ahead.gate.predictor.predict, lambda active, horizon: 1 / 0
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            ahead.project(table, mirror)
    ahead.gate.predictor.predict = predict
    assert ahead.project(table, mirror).tolist() == [[10, 0, 0]]


def test_a_client_that_told_its_length_is_believed_until_it_is_longer():
    ahead, table = Projections(Says(2.0), 3, False), running((0, 10, 0, 1), (0, 20, 0, 1), (0, 30, 0, 1))
    table.at.expected[0], table.at.expected[1] = 1, 50
    assert project(ahead, table, [60], [3]) == [[60, 52, 22, 23]]  # the third as predicted
    for row in range(3):
        table.at.produced[row] = 1
    # the first is there still: as predicted from now on, which is two more tokens
    assert project(ahead, table, [63], [3]) == [[63, 34, 23, 24]]


def test_expected_loads_believe_it_too():
    ahead, table = Projections(SaysCurve(2.0), 2, True), running((0, 7, 1, 1), (1, 7, 1, 1))
    table.at.expected[0] = 2
    assert project(ahead, table, [8, 8], [1, 1]) == [[8.0, 0.0, 0.0], [8.0, 4.5, 2.5]]
    table.at.produced[0] = 2  # it was not true
    assert project(ahead, table, [9, 8], [1, 1])[0] == [9.0, 5.0, 2.75]


def test_the_predictor_is_asked_by_worker_and_request_about_each_copy():
    says = Says(2.0)
    ahead, table = Projections(says, 3, False), running((1, 10, 0, 1), (0, 20, 6, 3), (1, 30, 2, 1), (0, 40, 1, 1))
    table.at.cap[0], table.at.cap[2], table.at.key[1] = 5, 1, 77
    project(ahead, table, [60, 40], [4, 2])
    asked = says.active
    assert asked.request_id.tolist() == [1, 3, 0, 2]
    assert asked.age.tolist() == [2, 1, 0, 2]
    assert (asked.prompt_tokens.tolist(), asked.prompt_key.tolist()) == ([20, 40, 10, 30], [77, 0, 0, 0])
    assert asked.max_tokens.tolist() == [0, 0, 5, 2], "an answer is never longer than its limit"


def test_a_request_that_waits_again_is_in_no_projection():
    for says, expects in ((Says(9.0), False), (SaysCurve(2.0), True)):
        ahead, table = Projections(says, 3, expects), running((0, 10, 0, 1), (0, 10, 0, 1))
        alone = project(Projections(says, 3, expects), running((0, 10, 0, 1)), [10], [1])
        table.at.expected[1] = 2
        assert project(ahead, table, [20], [2]) != alone
        table.at.state[1], table.at.worker[1] = State.POOLED, -1
        assert project(ahead, table, [10], [1]) == alone


def test_who_told_that_it_leaves_at_the_end_of_the_window_is_gone_there():
    ahead, table = Projections(Says(9.0), 3, False), running((0, 10, 0, 1), (0, 20, 0, 1))
    table.at.expected[0], table.at.expected[1] = 3, 4
    assert project(ahead, table, [30], [2]) == [[30, 32, 34, 23]]


def test_the_limit_that_a_client_gives_its_answer_bounds_what_is_predicted():
    story = Story("br-h:horizon=8")
    story.worker("a", slots=4)
    bounded, free = story.sent(1, max_tokens=3), story.sent(2)
    for one in (bounded, free):
        story.chunk(one.row)
    story.sent(3)
    leave = story.d.rows.at.leave
    assert (leave[bounded.row], leave[free.row]) == (3, NEVER)


def test_an_error_of_a_learning_predictor_is_raised_by_the_next_projection():
    says = Says(2.0)
    ahead, table = Projections(says, 3, False), running((0, 10, 2, 1))
    says.learn = lambda finished: 1 / 0
    for request in range(16):
        ahead.ended(request, 1, 2, 0)
    says.learn = lambda finished: None
    with pytest.raises(ZeroDivisionError):
        project(ahead, table, [12], [1])
    assert project(ahead, table, [12], [1]) == [[12, 13, 0, 0]]


def test_curves_of_running_requests_stay_when_the_table_grows():
    ahead, table = Projections(SaysCurve(2.0), 2, True), running((0, 7, 1, 1))
    assert project(ahead, table, [8], [1]) == [[8.0, 4.5, 2.5]]
    before = len(table.at.state)
    for request in range(1, before + 2):
        table.take(request)
    assert len(table.at.state) > before
    asked, ahead.gate.predictor.curve = ahead.gate.predictor.curve, lambda active, horizon: 1 / 0
    assert project(ahead, table, [8], [1]) == [[8.0, 4.5, 2.5]], "no request is due"
    ahead.gate.predictor.curve = asked


def test_a_round_that_was_not_decided_is_looked_at_again():
    says = Says(2.0)
    ahead, table = Projections(says, 3, False), running((0, 10, 2, 1), (0, 20, 1, 1))
    table.at.state[1] = State.SENT
    assert not ahead.has_asked(table, mirror_of([12], [1])), "one prediction is left to the round"
    ahead.look_again()
    table.at.state[1] = State.RUNNING
    assert ahead.project(table, mirror_of([33], [2])).tolist() == [[33, 35, 0, 0]]
    assert says.asked == [[0, 1]]


def test_expected_loads_between_those_that_are_computed_are_near_them():
    horizon, lasts = 48, 96
    says = SaysCurve(2.0)
    says.curve = lambda active, ahead: np.tile(np.maximum(0.0, 1.0 - np.arange(ahead + 1.0) / lasts), (active.age.size, 1))
    ahead, table = Projections(says, horizon, True), running((0, 100, 1, 1), (1, 300, 1, 1))
    found, h = np.array(project(ahead, table, [101, 301], [1, 1])), np.arange(horizon + 1.0)
    for worker, load in enumerate((101.0, 301.0)):
        assert found[worker] == pytest.approx((load + h) * (1.0 - h / lasts), rel=0.01)
