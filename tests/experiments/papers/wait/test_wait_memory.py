"""The experiment wait-memory at its reduced size."""

from tests.experiments.papers.quick import ours, quick


def test_at_the_high_rate_a_moderate_number_of_segments_needs_the_least_memory():
    found = quick("wait-memory")
    needs = {
        count: ours(found, f"500 requests/s, delta 0.1, T = 200 s, L = {count}", "memory that suffices")
        for count in (5, 10, 50, 500)
    }
    assert min(needs, key=lambda count: needs[count]) == 10
    assert needs[10] > ours(found, "500 requests/s", "fluid equilibrium, types known")


def test_where_one_request_a_stage_is_enough_no_queue_grows_with_the_horizon():
    """Fig. 18: theta is infinite where n_i = n_{i-1}, so that the logarithm of the horizon has no weight."""
    found = quick("wait-memory")
    for count in (1, 5, 50):
        short, long = (
            ours(found, f"50 requests/s, delta 0.001, T = {t} s, L = {count}", "memory that suffices") for t in (20, 2000)
        )
        assert long == short
