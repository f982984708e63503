"""What each class got."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.measure.classes import ByClass


def test_requests_tokens_and_waits_are_counted_by_class():
    found = ByClass()
    kinds, admitted = np.array([3, 0, 3]), np.array([0.0, 1.0, 2.0])
    found.add(kinds, np.array([10, 20, 30]), admitted, np.array([1.0, 2.0, 4.0]))
    first, second = found.rows()
    assert (first["request_class"], first["requests"], first["output_tokens"]) == (0, 1, 20)
    assert (second["request_class"], second["requests"], second["output_tokens"]) == (3, 2, 40)
    assert (first["mean_wait_s"], first["oldest_wait_s"]) == (2.0, 2.0)
    assert (second["mean_wait_s"], second["oldest_wait_s"]) == (2.5, 4.0)


def test_the_share_is_that_of_admissions_while_every_class_had_some():
    """Class 0 gets three of four admissions until it has none left at 100 s; then class 1 gets all, for 300 s."""
    seconds = np.arange(400.0)
    kinds = np.where((seconds < 100) & (seconds % 4 != 3), 0, 1)
    found = ByClass()
    found.add(kinds, np.ones(400, np.int64), seconds, np.zeros(400))
    shares = [one["admitted_share"] for one in found.rows()]
    assert shares == pytest.approx([0.75, 0.25], abs=0.03)
    assert sum(shares) == pytest.approx(1.0)


def test_nothing_was_got_by_nobody():
    assert ByClass().rows() == []


@given(
    st.lists(st.tuples(st.integers(-3, 4), st.integers(1, 99), st.floats(0, 1e4)), min_size=1, max_size=60),
    st.data(),
)
def test_the_order_and_the_chunks_requests_come_in_change_nothing(rows, data):
    kinds, tokens = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    admitted = np.array([r[2] for r in rows])
    whole, parts = ByClass(), ByClass()
    whole.add(kinds, tokens, admitted, np.ones(len(rows)))
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    cut = data.draw(st.integers(0, len(rows)))
    for part in (order[:cut], order[cut:]):
        if part.size:
            parts.add(kinds[part], tokens[part], admitted[part], np.ones(part.size))
    assert parts.rows() == whole.rows()
    assert sum(one["requests"] for one in whole.rows()) == len(rows)
