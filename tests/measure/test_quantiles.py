from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.measure.quantiles import AllValues, LogHistogram

SHARES = np.array([0.0, 0.25, 0.5, 0.95, 0.99, 1.0])
values = st.lists(st.floats(1e-9, 1e9) | st.just(0.0), min_size=1, max_size=50)


@given(values, st.integers(1, 50))
def test_all_values_give_numpys_linear_quantiles_in_any_chunks(items, cut):
    kept = AllValues()
    kept.add(np.array(items[:cut]))
    kept.add(np.array(items[cut:]))
    assert kept.quantiles(SHARES) == pytest.approx(np.quantile(items, SHARES), rel=1e-12)


@given(values, st.integers(1, 50))
def test_the_histogram_is_within_a_tenth_of_a_percent(items, cut):
    counted = LogHistogram()
    counted.add(np.array(items[:cut]))
    counted.add(np.array(items[cut:]))
    exact = np.quantile(items, SHARES)
    assert LogHistogram.RELATIVE_ERROR < 0.001
    assert counted.quantiles(SHARES) == pytest.approx(exact, rel=LogHistogram.RELATIVE_ERROR * (1 + 1e-9), abs=1e-12)


def test_the_histogram_does_not_grow():
    counted = LogHistogram()
    size = counted.counts.nbytes
    for scale in (1e-3, 1.0, 1e6):
        counted.add(np.linspace(0, scale, 10_000))
    assert counted.counts.nbytes == size < 400_000
    assert counted.total == 30_000


@pytest.mark.parametrize("kind", [AllValues, LogHistogram])
def test_no_values_have_no_quantile(kind):
    assert np.isnan(kind().quantiles(SHARES)).all()
    kept = kind()
    kept.add(np.zeros(0))
    assert np.isnan(kept.quantiles(SHARES)).all()


def test_values_out_of_range_are_counted_at_its_ends():
    counted = LogHistogram()
    counted.add(np.array([1e-30, 1e30]))
    low, high = counted.quantiles(np.array([0.0, 1.0]))
    assert low == 0.0
    assert high == pytest.approx(2.0**40, rel=1e-3)


def test_a_histogram_made_of_counts_is_the_one_that_counted_them():
    counted = LogHistogram()
    counted.add(np.geomspace(1e-3, 10.0, 101))
    again = LogHistogram.of(counted.counts)
    assert again.quantiles(SHARES).tolist() == counted.quantiles(SHARES).tolist()
    assert again.total == 101


def test_the_smallest_value_that_is_no_zero():
    counted = LogHistogram()
    counted.add(np.array([2.0**-41, 2.0**-40]))
    assert counted.quantiles(np.array([0.0, 1.0])) == pytest.approx([0.0, 2.0**-40], rel=0.001, abs=0)
