from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.measure.waits import WaitsBySize


def test_five_sizes_make_five_fifths_with_their_own_waits():
    waits = WaitsBySize()
    waits.add(np.array([1, 2, 3, 4, 5, 1, 2, 3, 4, 5]), np.array([1.0, 2, 3, 4, 5, 3, 4, 5, 6, 7]))
    assert waits.fifths() == [
        {
            "prompt_tokens_from": s,
            "prompt_tokens_to": s,
            "requests": 2,
            "mean_wait_s": s + 1.0,
            "oldest_wait_s": s + 2.0,
        }
        for s in range(1, 6)
    ]


def test_equal_prompts_are_one_group():
    waits = WaitsBySize()
    waits.add(np.full(20, 100), np.arange(20.0))
    (only,) = waits.fifths()
    assert only["requests"] == 20
    assert only["oldest_wait_s"] == 19.0
    assert only["prompt_tokens_from"] == only["prompt_tokens_to"] == 100


def test_no_requests_have_no_fifths():
    assert WaitsBySize().fifths() == []


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 100)), min_size=1, max_size=80), st.integers(0, 80))
def test_fifths_cover_every_request_once_in_order_of_size(rows, cut):
    size, wait = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    waits = WaitsBySize()
    waits.add(size[:cut], wait[:cut])
    waits.add(size[cut:], wait[cut:])
    fifths = waits.fifths()
    for f in fifths:
        inside = (size >= f["prompt_tokens_from"]) & (size <= f["prompt_tokens_to"])
        assert inside.sum() == f["requests"] > 0
        assert np.isclose(f["mean_wait_s"], wait[inside].mean())
        assert f["oldest_wait_s"] == wait[inside].max()
    assert sum(f["requests"] for f in fifths) == size.size
    ends = [e for f in fifths for e in (f["prompt_tokens_from"], f["prompt_tokens_to"])]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (size.min(), size.max())


def test_prompts_of_any_size_are_counted():
    """From 2^40 tokens on there was no bin for them."""
    waits, sizes = WaitsBySize(), np.array([7, 2**40, 2**62 + 1, 2**63 - 1])
    waits.add(sizes, np.arange(4.0))
    rows = waits.fifths()
    assert sum(row["requests"] for row in rows) == 4
    assert rows[0]["prompt_tokens_from"] == 7 and rows[-1]["prompt_tokens_to"] == 2**63 - 1


def test_no_fifth_is_a_fifth_but_for_the_bins_at_its_ends():
    """One prompt of each size up to 640 tokens: the bins there hold at most 8 sizes."""
    waits, sizes = WaitsBySize(), np.arange(1, 641)
    waits.add(sizes, np.zeros(640))
    fifths = waits.fifths()
    assert [abs(f["requests"] - 128) <= 8 for f in fifths] == [True] * 5
    assert [f["prompt_tokens_to"] - f["prompt_tokens_from"] + 1 for f in fifths] == [f["requests"] for f in fifths]
