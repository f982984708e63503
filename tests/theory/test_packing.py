"""Orders and packings of schedules: the paper's example and small ones counted by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.theory.packing import is_delayed, occupied, optimally_packed, same_order, total_latency

PROMPT, OUTPUT, MEMORY = np.ones(4, np.int64), np.array([1, 2, 3, 4]), 7
FIRST, SECOND, BEST = np.array([0, 2, 0, 3]), np.array([1, 1, 0, 3]), np.array([0, 0, 0, 2])


def test_the_memory_of_the_example_is_as_counted_by_hand():
    assert occupied(BEST, PROMPT, OUTPUT).tolist() == [6, 6, 6, 3, 4, 5]
    assert total_latency(BEST, OUTPUT) == 12


def test_the_schedules_of_the_example_keep_one_order_and_the_best_delays_no_request():
    for one, other in itertools.combinations((FIRST, SECOND, BEST), 2):
        assert same_order(one, other)
    assert is_delayed(FIRST, BEST) and is_delayed(SECOND, BEST)
    assert not is_delayed(FIRST, SECOND) and not is_delayed(SECOND, FIRST)
    assert not same_order(BEST, np.array([0, 0, 3, 2]))


def test_only_the_best_schedule_of_the_example_is_packed():
    assert [optimally_packed(s, PROMPT, OUTPUT, MEMORY) for s in (FIRST, SECOND, BEST)] == [
        False,
        False,
        True,
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(6, 20))
def test_one_after_the_other_is_packed_only_where_no_two_fit_beside_each_other(outputs, memory):
    output = np.array(outputs)
    starts = np.concatenate([[0], np.cumsum(output)[:-1]])
    prompt = np.ones_like(output)
    packed = optimally_packed(starts, prompt, output, memory)
    could = False
    for k in range(1, len(outputs)):
        for sooner in range(int(starts[k - 1]), int(starts[k])):
            moved = starts.copy()
            moved[k] = sooner
            could |= int(occupied(moved, prompt, output).max()) <= memory
    assert packed == (not could)


def test_one_request_and_a_memory_that_is_just_full_are_packed():
    """A prompt of 3 and an output of 2 hold 4 and 5 tokens; the second starts when the first has ended, and could not before."""
    alone = np.array([0]), np.array([3]), np.array([2])
    assert occupied(*alone).tolist() == [4, 5] and optimally_packed(*alone, 5)
    assert optimally_packed(np.array([0, 2]), np.array([3, 3]), np.array([2, 2]), 8)
    assert not optimally_packed(np.array([0, 2]), np.array([3, 3]), np.array([2, 2]), 9)


def test_an_empty_schedule_holds_nothing():
    empty = np.zeros(0, np.int64)
    assert occupied(empty, empty, empty).size == 0 and total_latency(empty, empty) == 0
    assert optimally_packed(empty, empty, empty, 0)


def test_schedules_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="kv_tokens"):
        optimally_packed(BEST, PROMPT, OUTPUT, 5)
    with pytest.raises(InputError, match="starts"):
        occupied(np.array([-1]), np.ones(1, np.int64), np.ones(1, np.int64))
