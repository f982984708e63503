"""Histograms, and the mean wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.dispatch.log.histogram import SHORT_SECONDS, Histogram, Seconds, Waits, add_wait, count


def test_a_histogram_counts_at_or_below_each_bound():
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        found.add(value)
    assert found.values() == {"buckets": {"1.0": 2, "2.0": 3, "+Inf": 4}, "sum": 12.0, "count": 4}


def test_what_is_counted_together_is_there_whenever_somebody_looks():
    found, other = Seconds(), Histogram(SHORT_SECONDS)
    for number in range(600):
        found.add(number / 1e6)
        other.add(number / 1e6)
        if number % 100 == 0:
            assert found.values() == other.values()
    assert found.values() == other.values()


@given(st.lists(st.floats(0.0, 10.0) | st.sampled_from([1.0, 2.0, 5.0])))
def test_a_histogram_counts_alike_compiled_and_plain(values):
    one, other = Histogram((1.0, 2.0, 5.0)), Histogram((1.0, 2.0, 5.0))
    for value in values:
        one.add(value)
        count(value, *other.arrays())
    assert one.values() == other.values()


def test_the_mean_wait_forgets():
    waits = Waits()
    sums = np.frombuffer(waits.sums)
    assert waits.mean_s == 0.0
    for _ in range(1 << 16):
        add_wait(1.0, sums)
    for _ in range(1 << 17):
        add_wait(3.0, sums)
    assert 2.5 < waits.mean_s < 3.0
