"""Looking ahead by eq. 3, against counting iteration by iteration."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import engine_views

from evenstep.compiled import as_plain
from evenstep.scheduling.filling import rule_view
from evenstep.scheduling.intervals import feasible
from evenstep.scheduling.intervals.feasible import Ahead

CASES = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=7)


def ahead_of(cases, spare=0):
    """The entries of these (remaining, base), sorted."""
    ahead = Ahead(*(np.zeros(len(cases) + spare, np.int64) for _ in range(3)))
    for number, (more, own) in enumerate(cases):
        as_plain(feasible.put)(ahead, number, more, number, own)
    as_plain(feasible.sort)(ahead, len(cases))
    return ahead


def fits(cases, capacity):
    """Whether the last of these fits with all others."""
    *others, (more, own) = cases
    return as_plain(feasible.fits_with)(ahead_of(others), len(others), capacity, more, own)


def growing(cases, capacity):
    """Numbers of those that may grow."""
    ahead = ahead_of(cases)
    return set(ahead.number[: as_plain(feasible.may_grow)(ahead, len(cases), capacity)].tolist())


def can_end_one_by_one(cases, capacity):
    """Whether all finish if the one nearest to its end always goes on and the rest pause."""
    held = sum(own for _, own in cases)
    for more, own in sorted(cases):
        if held + more > capacity:
            return False
        held -= own
    return True


@given(CASES, st.integers(1, 200))
def test_a_set_fits_if_memory_suffices_in_every_iteration_to_come(cases, capacity):
    longest = max(more for more, _ in cases)
    peak = max(sum(own + j for more, own in cases if more >= j) for j in range(1, longest + 1))
    assert fits(cases, capacity) == (peak <= capacity)


@given(CASES, st.integers(1, 200))
@example([(1, 0), (2, 1), (2, 1)], 3)
def test_those_that_may_grow_leave_everybody_an_end(cases, capacity):
    numbers = growing(cases, capacity)
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


@given(CASES, st.integers(1, 200))
def test_where_all_fit_all_may_grow(cases, capacity):
    if fits(cases, capacity):
        assert len(growing(cases, capacity)) == len(cases)


@given(engine_views(), st.integers(1, 90))
def test_the_last_of_the_remaining_iterations_holds_all_tokens_of_the_request(view, length):
    for request in range(view.left.size):
        more = as_plain(feasible.remaining)(rule_view(view), request, length)
        target = view.prompt_tokens[request] + view.hold_produced - 1 + view.block_tokens - 1
        expected = target + max(length, view.produced[request] + 1)
        assert more >= 1
        if more > 1:
            assert as_plain(feasible.base)(rule_view(view), request) + more == min(expected, view.kv_capacity)


@given(CASES, st.integers(1, 20), st.integers(0, 30))
def test_one_more_request_takes_its_place_after_its_equals(cases, more, own):
    ahead = ahead_of(cases, spare=1)
    assert as_plain(feasible.insert)(ahead, len(cases), more, own) == len(cases) + 1
    wanted = sorted((*pair, number) for number, pair in enumerate([*cases, (more, own)]))
    wanted.sort(key=lambda entry: (entry[0], entry[2]))
    assert list(zip(ahead.more, ahead.base, ahead.number, strict=True)) == wanted


@given(CASES)
def test_entries_are_sorted_by_remaining_iterations_and_ties_by_number(cases):
    ahead = ahead_of(cases)
    wanted = sorted(range(len(cases)), key=lambda k: (cases[k][0], k))
    assert ahead.number.tolist() == wanted
