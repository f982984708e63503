"""The experiment nested-segments at its reduced size."""

from tests.experiments.papers.quick import ours, quick


def test_at_the_high_rate_a_moderate_number_of_segments_needs_the_least_memory():
    found = quick("nested-segments")
    needs = {
        count: ours(found, f"500 requests/s, delta 0.1, L = {count}", "memory that suffices") for count in (5, 10, 50, 500)
    }
    assert min(needs, key=lambda count: needs[count]) == 10
    assert needs[10] > ours(found, "500 requests/s", "fluid equilibrium, types known")
