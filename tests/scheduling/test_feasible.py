"""Looking ahead by eq. 3, against counting iteration by iteration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_views

from evenstep.scheduling.feasible import Ahead, base, remaining

CASES = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=7)


def ahead_of(view, cases, capacity):
    ahead = Ahead(view, capacity)
    ahead.entries = sorted((more, number, own) for number, (more, own) in enumerate(cases))
    return ahead


def can_end_one_by_one(cases, capacity):
    """Whether all finish if the one nearest to its end always goes on and the rest pause."""
    held = sum(own for _, own in cases)
    for more, own in sorted(cases):
        if held + more > capacity:
            return False
        held -= own
    return True


@given(engine_views(), CASES, st.integers(1, 200))
def test_a_set_fits_if_memory_suffices_in_every_iteration_to_come(view, cases, capacity):
    longest = max(more for more, _ in cases)
    peak = max(sum(own + j for more, own in cases if more >= j) for j in range(1, longest + 1))
    assert ahead_of(view, cases, capacity).fits() == (peak <= capacity)


@given(engine_views(), CASES, st.integers(1, 200))
def test_those_that_may_grow_leave_everybody_an_end(view, cases, capacity):
    numbers = ahead_of(view, cases, capacity).may_grow()
    if not can_end_one_by_one(cases, capacity):
        assert not numbers or any(more + own > capacity for more, own in cases)
        return
    order = sorted(range(len(cases)), key=lambda k: (cases[k][0], k))
    assert numbers == set(order[: len(numbers)]) and numbers

    def grown(count):
        after = [(more - 1, own + 1) for more, own in (cases[k] for k in order[:count])]
        return [case for case in after if case[0] > 0] + [cases[k] for k in order[count:]]

    assert can_end_one_by_one(grown(len(numbers)), capacity)
    if all(more > 1 for more, _ in cases) and len(numbers) < len(cases):
        assert not can_end_one_by_one(grown(len(numbers) + 1), capacity)


@given(engine_views(), CASES, st.integers(1, 200))
def test_whoever_fits_may_grow(view, cases, capacity):
    ahead = ahead_of(view, cases, capacity)
    if ahead.fits():
        assert len(ahead.may_grow()) == len(cases)


@given(engine_views(), st.integers(1, 90))
def test_the_last_of_the_remaining_iterations_holds_all_tokens_of_the_request(view, length):
    for request in range(view.left.size):
        more = remaining(view, request, length)
        target = view.prompt_tokens[request] + view.hold_produced - 1 + view.block_tokens - 1
        expected = target + max(length, view.produced[request] + 1)
        assert more >= 1
        if more > 1:
            assert base(view, request) + more == min(expected, view.kv_capacity)


@given(engine_views())
def test_one_more_request_fits_or_not_as_the_whole_set_does(view):
    ahead = Ahead(view)
    for request in range(view.left.size):
        length = float(np.maximum(view.output_high[request], 1))
        fits = ahead.fits_with(request, length)
        ahead.add(request, length)
        assert ahead.fits() == fits
