"""The time of A_min over its memory at a reduced size."""

from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.interval.interval_cost import claim


def test_more_memory_takes_more_time_and_short_outputs_take_more_than_long_ones():
    found = quick("interval-cost", seeds=3)
    small, large = (ours(found, f"outputs to 20, M = {m}", "CPU time of an iteration") for m in ("4,000", "16,000"))
    assert large > small > ours(found, "outputs to 400, M = 4,000", "CPU time of an iteration")


def test_m_log_m_is_told_of_the_whole_interval():
    """100 log 100 is 20 times 10 log 10."""

    def holds(*most):
        return claim(1, (10, 100), {(1, 10): [1.0] * len(most), (1, 100): most}).holds

    assert holds(19.0, 19.1, 19.2) is True and holds(21.0, 21.1, 21.2) is False and holds(15.0, 20.0, 25.0) is None
