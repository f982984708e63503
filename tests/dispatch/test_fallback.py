"""When the policy is asked again."""

from __future__ import annotations

import pytest

from evenstep.dispatch.rounds.fallback import Fallback


@pytest.mark.parametrize("fault", ["raised", "contract", "budget", "predictor"])
def test_one_fault_costs_so_many_seconds_however_many_rounds_they_hold(fault):
    found = Fallback(2.0)
    found.after(fault, 10.0)
    seen = []
    for now_s in (10.0, 10.1, 10.2, 11.9, 12.0, 12.1):
        reason = found.before(False, now_s)
        found.after(reason, now_s)
        seen.append(reason)
    assert seen == ["cooling", "cooling", "cooling", "cooling", "", ""]


def test_stale_news_cost_as_long_as_they_are_stale_and_not_a_round_more():
    found = Fallback(2.0)
    for now_s, is_stale, expected in ((1.0, True, "stale"), (1.1, True, "stale"), (1.2, False, "")):
        assert found.before(is_stale, now_s) == expected
        found.after(expected, now_s)
    assert found.counted == {"stale": 2}


def test_three_raises_in_a_row_switch_it_off_and_one_answer_between_does_not():
    found = Fallback(1.0)
    for reason in ("raised", "raised", "cooling", "", "raised", "raised"):
        found.after(reason, 5.0)
    assert found.before(False, 5.5) == "cooling"
    found.after("raised", 6.0)
    assert found.before(False, 100.0) == "off" and found.is_off
    found.reload()
    assert found.before(False, 6.0) == "" and found.before(True, 6.0) == "stale"
