"""A point of what is believed of an output length."""

from evenstep.scheduling.believed import weights


def test_each_statistic_is_a_point_between_the_bounds():
    assert [weights(s)[0] * 10 + weights(s)[1] * 30 for s in ("low", "middle", "high")] == [10, 20, 30]
