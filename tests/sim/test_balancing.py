"""Giving requests to data-parallel ranks: what the policy is told, and when."""

import math

import numpy as np
import pytest

from evenstep.errors import InputError, PolicyError
from evenstep.request import Trace
from evenstep.routing.view import HOLD, RoutingDecision
from evenstep.sim.engine.balancing import Balancer, Counts

TRACE = Trace(prompt_tokens=np.arange(10, 30), output_tokens=np.ones(20, np.int64))


def balancer(spec="vllm:score=waiting-4", ranks=2, capacity=math.inf, news_s=0.1):
    return Balancer(spec, ranks, capacity, TRACE, 0, news_s)


def counts(waiting, running):
    return Counts(np.array(waiting), np.array(running), np.zeros(len(waiting)), np.zeros(len(waiting)))


def test_round_robin_takes_ranks_in_turn():
    one = balancer("round-robin", ranks=3)
    assert [one.choose(row, 0.1 * row) for row in range(6)] == [0, 1, 2, 0, 1, 2]


def test_what_was_sent_counts_as_waiting_until_the_next_news():
    one = balancer()
    one.hear(0.0, counts([0, 0], [0, 7]))
    assert [one.choose(row, 0.01) for row in range(4)] == [
        0,
        0,
        1,
        0,
    ]  # 0, 4 | 8 against 7, then 8 against 11
    one.hear(0.05, counts([0, 0], [4, 8]))
    assert one.choose(4, 0.09) == 1  # 12 against 11: the news of 0.05 s goes out at 0.1 s
    assert one.choose(5, 0.1) == 0  # 4 against 8


def test_a_broadcast_brings_the_latest_that_was_heard_by_then():
    one = balancer()
    one.hear(0.0, counts([0, 0], [0, 0]))
    one.choose(0, 0.0)
    for at, running in ((0.02, [9, 0]), (0.06, [0, 9]), (0.15, [9, 0])):
        one.hear(at, counts([0, 0], running))
    assert one.choose(1, 0.12) == 0 and one.known.running.tolist() == [0, 9]
    assert one.choose(2, 0.16) == 0  # the next broadcast is due at 0.2 s
    assert one.choose(3, 0.2) == 1


def test_the_policy_sees_the_share_of_memory_in_use():
    one = balancer("vllm", capacity=1000.0, news_s=0.0)
    one.hear(0.0, Counts(np.array([1, 1]), np.array([2, 2]), np.zeros(2), np.array([900.0, 100.0])))
    assert one.choose(0, 0.0) == 1
    full = Counts(np.array([0, 5]), np.array([0, 0]), np.zeros(2), np.array([1000.0, 1000.0]))
    one.hear(0.1, full)
    assert one.choose(1, 0.1) == 0  # no rank is too full to take it


def test_a_queue_larger_than_the_memory_does_not_hide_how_full_that_is():
    """vLLM's scores: 2 + 3 + 6 x 3 x (0.9 - 0.5) = 12.2 against 2 + 6 = 8."""
    one = balancer("vllm", capacity=1000.0, news_s=0.0)
    one.hear(0.0, Counts(np.array([3, 6]), np.array([2, 2]), np.array([5000.0, 60.0]), np.array([900.0, 100.0])))
    assert one.choose(0, 0.0) == 1


class Keeps:
    """A policy that sends nothing."""

    def route(self, view):
        return RoutingDecision(np.full(view.waiting_id.size, HOLD))


class Raises:
    """A policy that cannot."""

    def __init__(self, error: Exception):
        self.error = error

    def route(self, view):
        raise self.error


class Answers:
    """A policy that gives one answer."""

    memory_size = 0

    def __init__(self, answer):
        self.answer = answer

    def route(self, view):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "route answers NoneType; expected a RoutingDecision"),
        (RoutingDecision(np.zeros(0, np.int64)), r"worker has shape \(0,\)"),
        (RoutingDecision(np.array([2])), "unknown worker 2"),
        (RoutingDecision(np.array([0]), np.zeros(7, np.int64)), r"memory has shape \(7,\)"),
    ],
)
def test_an_answer_that_breaks_the_contract_is_the_policy_s_error(answer, said):
    one = balancer()
    one.policy = Answers(answer)
    with pytest.raises(PolicyError, match=said):
        one.choose(3, 0.0)


def test_a_policy_may_not_keep_a_request_and_cannot_look_ahead():
    one = balancer()
    one.policy = Keeps()
    with pytest.raises(PolicyError, match="keeps request 3 back"):
        one.choose(3, 0.0)
    one.policy = Raises(ZeroDivisionError("oops"))
    with pytest.raises(PolicyError, match="raised ZeroDivisionError: oops"):
        one.choose(3, 0.0)
    one.policy = Raises(InputError("here", "field", 1, "another"))
    with pytest.raises(PolicyError, match="raised InputError: here: field is 1; expected another"):
        one.choose(3, 0.0)
    with pytest.raises(InputError, match="does not look ahead"):
        balancer("br-h")
    with pytest.raises(InputError, match="length is 'predicted'"):
        balancer("max-min:length=predicted")
    with pytest.raises(InputError, match="vllm"):
        balancer("vlm")
