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
    found.cooled("a")
    assert [found.probed("a", False) for _ in range(3)] == [2.0, 3.0, 3.0]
    assert found.probed("a", True) == 0.0 and not found.is_ejected("a")


def test_other_limits_hold_for_the_next_ejection_and_no_wait_is_longer_than_the_cap():
    found = breaker()
    found.limits(2, 2.0, 3.0)
    assert found.eject("a") == 2.0
    found.limits(2, 60.0, 30.0)
    assert found.eject("b") == 30.0 and found.probed("a", False) == 4.0
