"""Whose failure it was, and how long an engine is left alone."""

from __future__ import annotations

from evenstep.dispatch.fleet.breaker import Breaker


def breaker(failures=2):
    found = Breaker(failures, 1.0, 3.0)
    for name in "abc":
        found.add(name)
    return found


def test_refused_connections_count_at_once_and_an_answer_begins_anew():
    found = breaker()
    assert not found.failed("a", 1, True)
    found.answered("a", 9)
    assert not found.failed("a", 2, True)
    assert found.failed("a", 3, True)


def test_another_failure_counts_once_the_request_was_answered_elsewhere():
    found = breaker(failures=1)
    assert not found.failed("a", 1, False)
    assert found.answered("b", 1) == ["a"]
    assert found.answered("b", 1) == []


def test_one_prompt_that_fails_everywhere_blames_nobody():
    found = breaker(failures=1)
    for name in "abc":
        assert not found.failed(name, 1, False)
    found.forget(1)
    assert found.answered("a", 1) == [] and found.circuits["b"].failures == 0


def test_bad_probes_double_the_wait_up_to_the_cap():
    found = breaker()
    assert found.eject("a") == 1.0 and found.is_ejected("a")
    assert [found.probed("a", False) for _ in range(3)] == [2.0, 3.0, 3.0]
    assert found.probed("a", True) == 0.0 and not found.is_ejected("a")


def test_other_limits_hold_for_the_next_ejection_and_no_wait_is_longer_than_the_cap():
    found = breaker()
    found.limits(2, 2.0, 3.0)
    assert found.eject("a") == 2.0
    found.limits(2, 60.0, 30.0)
    assert found.eject("b") == 30.0 and found.probed("a", False) == 4.0


def test_an_engine_answers_for_itself_and_those_that_are_gone_are_not_blamed():
    found = breaker(failures=1)
    for name in "abc":
        found.failed(name, 1, False)
    found.remove("c")
    assert found.answered("a", 1) == ["b"], "that answered the request it had failed"
    assert found.circuits["a"].failures == 0


def test_an_engine_that_was_added_again_or_came_back_begins_anew():
    for again in (lambda found: (found.remove("a"), found.add("a")), lambda found: found.probed("a", True)):
        found = breaker()
        assert not found.failed("a", 1, True) and found.failing == {"a"}
        found.eject("a")
        again(found)
        assert not found.is_ejected("a") and not found.failing
        assert not found.failed("a", 2, True) and found.failed("a", 3, True)


def test_an_engine_that_is_left_alone_is_not_ejected_again():
    found = breaker(failures=1)
    assert found.failed("a", 1, True)
    found.eject("a")
    assert not found.failed("a", 2, True)
    found.probed("a", False)
    assert not found.failed("a", 3, True)


def test_an_engine_without_a_cooldown_is_not_probed_without_a_pause():
    found = Breaker(1, 0.0, 3.0)
    found.add("a")
    assert found.eject("a") == 0.0
    assert [found.probed("a", False) for _ in range(3)] == [0.002, 0.004, 0.008]
