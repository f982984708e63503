"""Steps of groups, and when a round is ripe."""

from __future__ import annotations

from evenstep.dispatch.rounds import Rounds


def two_workers():
    found = Rounds([0, 0], 1)
    found.begins(0)
    found.begins(1)
    return found


def test_a_group_s_step_is_delivered_by_all_its_workers():
    found = two_workers()
    assert not found.deliver(0, 1)
    assert found.deliver(1, 1)
    found.steps_on(0)
    assert not found.is_complete(0)
    assert not found.deliver(0, 2)
    found.steps_on(1)
    assert found.deliver(1, 2)


def test_a_step_is_not_delivered_twice():
    found = two_workers()
    found.deliver(0, 1)
    assert not found.deliver(0, 1) and not found.is_complete(0)


def test_an_open_round_is_ripe_when_the_step_is_delivered_or_its_time_is_over():
    found = two_workers()
    assert found.open(0, 5.0) and not found.ripe
    assert not found.open(0, 5.5)
    assert found.deadline_s(0.5) == 5.5
    assert found.gathering(5.4, 0.5) == {0} and found.gathering(5.5, 0.5) == set()
    found.deliver(0, 1)
    found.deliver(1, 1)
    assert found.ripe and found.gathering(5.1, 0.5) == set()
    found.close(set())
    assert not found.ripe and found.deadline_s(0.5) == float("inf")


def test_a_worker_that_runs_nothing_is_not_waited_for():
    found = two_workers()
    found.open(0, 0.0)
    found.deliver(0, 1)
    found.ends(1)
    assert found.ripe


def test_an_idle_group_decides_at_once():
    found = Rounds([0], 1)
    found.open(0, 0.0)
    assert found.ripe
