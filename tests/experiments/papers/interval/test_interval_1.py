"""Interval scheduling's experiment 1 at its reduced size."""

from tests.experiments.papers.quick import ours, quick


def test_a_min_lies_between_hindsight_and_a_max():
    found = quick("interval-1")
    best, learned, most = (
        ours(found, f"{who}, [1, 1000], n = 400", "average latency") for who in ("H-SF", "A_min", "A_max")
    )
    assert best < learned < most
