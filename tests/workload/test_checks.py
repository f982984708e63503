from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.request import PrefixBlocks, Trace
from evenstep.workload.checks import check_trace

GOOD = Trace(
    np.array([5, 6]),
    np.array([1, 2]),
    arrival_s=np.array([0.0, 1.0]),
    session=np.array([0, 0]),
    after=np.array([-1, 0]),
    think_s=np.array([0.0, 1.0]),
)


@given(traces())
def test_every_trace_the_tests_draw_keeps_the_promises(trace):
    assert check_trace(trace, "x") is trace


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt_tokens": np.array([5, 0])}, "prompt_tokens"),
        ({"output_tokens": np.array([1.0, 2.0])}, "output_tokens"),
        ({"output_tokens": np.array([1])}, "output_tokens"),
        ({"arrival_s": np.array([1.0, 0.0])}, "arrival_s"),
        ({"arrival_s": np.array([0.0, np.nan])}, "arrival_s"),
        ({"think_s": np.array([0.0, -1.0])}, "think_s"),
        ({"after": np.array([-1, 1])}, "after"),
        ({"after": np.array([1, -1])}, "after"),
        ({"session": np.array([0, 1])}, "after"),
        ({"prefix_blocks": PrefixBlocks(np.array([1]), np.array([0, 1]), 16)}, "prefix_blocks.offsets"),
        (
            {"prefix_blocks": PrefixBlocks(np.array([1]), np.array([0, 1, 1]), 0)},
            "prefix_blocks.block_tokens",
        ),
    ],
)
def test_a_broken_promise_is_named(change, field):
    with pytest.raises(InputError) as caught:
        check_trace(replace(GOOD, **change), "x")
    assert caught.value.field == field


def test_a_trace_without_rows_is_none():
    with pytest.raises(InputError, match="rows is 0"):
        check_trace(Trace(np.zeros(0, np.int64), np.zeros(0, np.int64)), "x")
