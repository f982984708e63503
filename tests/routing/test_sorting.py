"""The stable sort of rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from evenstep.compiled import jit
from evenstep.routing import sorting


@jit
def sort(keys, values, spare_keys, spare_values):
    sorting.sort(keys, values, spare_keys, spare_values)


@examples(150, fast=60)
@given(st.lists(st.integers(0, 20).map(float), max_size=70))
def test_sizes_are_sorted_and_keep_their_order_among_equals(sizes: list[float]) -> None:
    """Up to 8 by insertion, up to 16, 32 and 64 with one more merge each."""
    keys, values = np.array(sizes), np.arange(len(sizes))
    sort(keys, values, np.full(len(sizes), -7.0), np.full(len(sizes), -7))
    assert list(zip(keys.tolist(), values.tolist(), strict=True)) == sorted(zip(sizes, range(len(sizes)), strict=True))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 129])
@pytest.mark.parametrize("step", [5, 1, -1, 0])
def test_every_length_is_sorted(count: int, step: int) -> None:
    """Sizes that are mixed, sorted already, the other way round, and all equal."""
    sizes = np.arange(count) * step % 67.0
    keys, values = sizes.copy(), np.arange(count)
    sort(keys, values, np.full(count, -7.0), np.full(count, -7))
    assert values.tolist() == np.argsort(sizes, kind="stable").tolist()
    assert keys.tolist() == np.sort(sizes).tolist()
