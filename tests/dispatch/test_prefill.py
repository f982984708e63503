"""The prefill budget."""

from __future__ import annotations

from evenstep.dispatch.fleet.prefill import PrefillBudget
from evenstep.dispatch.settings import WorkerSpec


def budget(**used):
    found = PrefillBudget()
    for name, share in used.items():
        found.add(WorkerSpec(name=name, role="prefill", kv_tokens=100))
        found.sampled(name, share, 0)
    return found


def test_the_emptiest_is_chosen_and_what_it_was_sent_counts():
    found = budget(a=0.2, b=0.3)
    assert found.choose().spec.name == "a"
    sample = found.charge("a", 1, 20)
    assert found.choose().spec.name == "b"
    found.release("a", 1, 20, sample)
    assert found.choose().spec.name == "a"


def test_nothing_goes_above_the_threshold_or_where_it_failed():
    found = budget(a=0.91, b=0.5)
    assert found.choose({"b"}) is None
    found.charge("b", 1, 41)
    assert found.choose() is None and found.free("b") == 0.0


def test_a_sample_contains_what_was_charged_before_it():
    found = budget(a=0.2)
    before = found.charge("a", 1, 30)
    found.sampled("a", 0.5, 0)
    found.release("a", 1, 30, before)
    assert found.prefillers["a"].charged == 0 and found.free("a") == 0.4


def test_one_that_cannot_be_read_is_full():
    found = budget(a=0.2)
    found.unreadable("a")
    assert found.choose() is None


def test_a_reading_that_comes_after_metrics_were_given_up_fills_nothing():
    found = budget(a=0.2)
    before = found.charge("a", 1, 30)
    found.prefillers["a"].spec = WorkerSpec(name="a", role="prefill", kv_tokens=100, scraped=False)
    found.prefillers["a"].go_unread()
    found.sampled("a", 0.95, 0)
    assert found.prefillers["a"].filled == 0.3, "only what was sent there counts"
    found.release("a", 1, 30, before)
    assert found.prefillers["a"].filled == 0.0


def test_one_that_leaves_is_ejected_or_has_no_slot_takes_no_prompt_and_one_at_the_threshold_does():
    for field, value in (("leaves", True), ("is_up", False), ("spec", WorkerSpec(name="a", role="prefill", slots=1))):
        found = budget(a=0.2, b=0.9)
        assert found.choose().spec.name == "a"
        found.charge("a", 1, 0)
        setattr(found.prefillers["a"], field, value)
        assert found.choose().spec.name == "b", field
        assert found.choose({"b"}) is None


def test_a_prompt_of_a_prefiller_that_is_gone_changes_no_budget():
    found = budget(a=0.2)
    found.release("gone", 1, 20, 1)
    assert found.free("a") == 0.7
