"""Histograms and counters."""

from __future__ import annotations

from evenstep.dispatch.meters import SHORT_SECONDS, Histogram, Meters, Seconds


def test_a_histogram_counts_at_or_below_each_bound():
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        found.add(value)
    assert found.values() == {"buckets": {"1.0": 2, "2.0": 3, "+Inf": 4}, "sum": 12.0, "count": 4}


def test_all_meters_are_plain_numbers():
    found = Meters()
    found.decisions["br-0", "admitted"] += 2
    values = found.values()
    assert values["decisions_total"] == [{"policy": "br-0", "outcome": "admitted", "value": 2}]
    assert values["output_tokens_total"] == 0


def test_what_is_counted_together_is_there_whenever_somebody_looks():
    found, other = Seconds(), Histogram(SHORT_SECONDS)
    for number in range(600):
        found.add(number / 1e6)
        other.add(number / 1e6)
        if number % 100 == 0:
            assert found.values() == other.values()
    assert found.values() == other.values()
