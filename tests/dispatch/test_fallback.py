"""When the policy is asked again."""

from __future__ import annotations

from evenstep.dispatch.fallback import Fallback


def test_one_fault_costs_so_many_good_rounds():
    found = Fallback(2)
    found.after("contract")
    seen = []
    for _ in range(4):
        reason = found.before(False)
        found.after(reason)
        seen.append(reason)
    assert seen == ["cooling", "cooling", "", ""]


def test_three_raises_in_a_row_switch_it_off_and_one_answer_between_does_not():
    found = Fallback(1)
    for reason in ("raised", "raised", "cooling", "", "raised", "raised"):
        found.after(reason)
    assert found.before(False) == "cooling"
    found.after("raised")
    assert found.before(False) == "off" and found.is_off
    found.reload()
    assert found.before(False) == "" and found.before(True) == "stale"
