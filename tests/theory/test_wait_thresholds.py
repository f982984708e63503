"""Thresholds of WAIT, against exhaustive search."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.theory.fluid import Types
from evenstep.theory.wait_thresholds import doubts, expected_latency_s, least, solved

SMALL = st.lists(st.tuples(st.floats(0.5, 20), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=3)


@settings(max_examples=40)
@given(SMALL, st.floats(0.05, 0.6))
def test_no_smaller_thresholds_satisfy_the_condition(numbers, load):
    rates, prompt, output = zip(*numbers, strict=True)
    d1_s = load / float(np.dot(rates, Types(rates, prompt, output, 1.0, 0.0).work))
    types = Types(rates, prompt, output, 0.1, d1_s)
    try:
        found = least(types)
    except InputError:
        return
    if found.thresholds.max() > 12:
        return
    holds = [
        n
        for n in product(range(1, 13), repeat=len(rates))
        if all(types.iteration_s(np.array(n, float)) < k / rate for k, rate in zip(n, rates, strict=True))
    ]
    assert tuple(found.thresholds.tolist()) in holds
    assert (np.array(holds) >= found.thresholds).all()
    assert not doubts(types, found.thresholds)


def test_thresholds_that_are_too_low_are_told_with_their_numbers():
    types = Types((100.0, 1.0), (10, 10), (10, 10), 0.05, 0.0)
    assert doubts(types, np.array([4, 1])) == [
        "type 0: an iteration takes 0.05 s, longer than the 0.04 s in which 4 requests arrive"
    ]


def test_below_capacity_arrivals_set_the_pace_of_a_stage():
    found = least(Types((1.0, 100.0), (10, 10), (10, 10), 0.05, 0.0))
    assert found.thresholds.tolist() == [1, 6]
    assert found.stage_s.tolist() == [1.0, 0.06]


def test_memory_and_load_that_do_not_suffice_are_refused():
    with pytest.raises(InputError, match="kv_tokens"):
        least(Types((10.0,), (10,), (10,), 0.05, 0.0), kv_tokens=10)
    with pytest.raises(InputError, match="load"):
        least(Types((10.0,), (10,), (10,), 0.05, 1.0))


def test_the_expected_latency_by_hand():
    """T = 1 s. Type 1 arrives 2 a second for n = 6: a stage lasts 3 s, 5 others take 2.5 s, half; queue 1 / (2 (6 - 2))."""
    types = Types((2.0, 1.0), (10, 10), (4, 9), 1.0, 0.0)
    found = expected_latency_s(types, solved(types, np.array([6, 2])))
    assert found.tolist() == pytest.approx([5 * 3 + 1.25 + 0.125, 10 * 2 + 0.5 + 0.5])


def test_a_full_batch_by_hand():
    types = Types((2.0, 1.0), (10, 20), (4, 9), 1.0, 0.001)
    found = solved(types, np.array([6, 2]))
    assert found.kv_tokens == 6 * 5 * 12 + 2 * 10 * 24.5
    assert found.iteration_s == pytest.approx(1.0 + 0.85)
    assert found.stage_s.tolist() == pytest.approx([3.0, 2.0])


def test_a_type_that_does_not_arrive_waits_for_ever():
    found = solved(Types((0.0,), (1,), (1,), 1.0, 0.0), np.array([2]))
    assert found.stage_s.tolist() == [np.inf]
    idle = Types((0.0,), (1,), (1,), 1.0, 0.0)
    assert expected_latency_s(idle, solved(idle, np.array([1]))).tolist() == [np.inf]
    assert doubts(idle, np.array([1])) == []


def test_a_type_that_need_not_gather_waits_for_the_queue_alone():
    """n = 1 of .5 a second: a stage lasts 2 s, the queue .5 / (2 (1 - .5)) over .5 a second."""
    types = Types((0.5,), (1,), (3,), 1.0, 0.0)
    assert expected_latency_s(types, solved(types, np.array([1]))).tolist() == pytest.approx([4 * 2 + 1.0])


def test_equality_breaks_no_condition_and_exact_memory_is_enough():
    types = Types((0.5,), (1,), (3,), 2.0, 0.0)
    assert doubts(types, np.array([1])) == []
    slower = Types((0.5,), (1,), (3,), 2.1, 0.0)
    assert doubts(slower, np.array([1])) == [
        "type 0: an iteration takes 2.1 s, longer than the 2 s in which 1 request arrives"
    ]
    needed = least(Types((0.5,), (1,), (3,), 1.0, 0.0)).kv_tokens
    assert least(Types((0.5,), (1,), (3,), 1.0, 0.0), kv_tokens=needed).kv_tokens == needed
