"""Keyed random numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep import draws, streams

seeds = st.integers(-(2**62), 2**62)
ids = st.integers(0, 2**62)


def test_a_key_gives_the_same_number_on_every_machine_for_ever():
    assert streams.stream_number("p2c") == 2953403364414090949
    assert streams.uniform(7, "p2c", 3, 1) == 0.24227265347289617


@given(seed=seeds, request=ids, draw=st.integers(0, 1000))
def test_the_kernel_draws_the_same_bits(seed, request, draw):
    number = streams.stream_number("jsq")
    assert draws.uniform(seed, number, request, draw) == streams.uniform(seed, "jsq", request, draw)


@given(seed=seeds, rows=st.lists(ids, max_size=20), draw=st.integers(0, 5))
def test_many_draws_at_once_are_the_single_ones(seed, rows, draw):
    at_once = streams.uniform(seed, "x", np.array(rows, np.int64), draw)
    assert at_once.tolist() == [streams.uniform(seed, "x", row, draw) for row in rows]


def test_draws_fill_the_unit_interval_evenly():
    drawn = streams.uniform(1, "evenness", np.arange(100_000))
    counts, _ = np.histogram(drawn, bins=20, range=(0, 1))
    assert drawn.min() >= 0 and drawn.max() < 1
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)


def test_seed_stream_request_and_draw_all_matter():
    base = streams.uniform(1, "a", 1, 1)
    others = [
        streams.uniform(2, "a", 1, 1),
        streams.uniform(1, "b", 1, 1),
        streams.uniform(1, "a", 2, 1),
        streams.uniform(1, "a", 1, 2),
    ]
    assert len({base, *others}) == 5


def test_neighbouring_keys_are_uncorrelated():
    rows = np.arange(50_000)
    one, two = streams.uniform(1, "a", rows, 0), streams.uniform(1, "a", rows, 1)
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.02
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.02
