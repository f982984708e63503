from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.workload.checks import check_trace
from evenstep.workload.replicate import (
    Rescaled,
    capacity,
    rate,
    replicate,
    rescaled,
    scaled_to_load,
    scaled_to_rate,
    units_of,
)
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.synthetic import Synthetic

DRAWN = Synthetic(200, laws.Uniform(1, 50), laws.Uniform(1, 50), arrivals.Poisson(2))
PLAIN = Trace(np.arange(1, 6), np.arange(1, 6), arrival_s=np.array([0.0, 1.0, 3.0, 6.0, 10.0]))


@given(traces(), st.integers(1, 50))
def test_a_rotated_trace_keeps_its_requests_and_its_sessions(trace, number):
    turned = check_trace(replicate(trace, number, 0), "turned")
    for column in ("prompt_tokens", "output_tokens"):
        assert sorted(getattr(turned, column)) == sorted(getattr(trace, column))
    if trace.session is None:
        return
    gaps = [np.zeros(0)], [np.zeros(0)]
    for session in np.unique(trace.session[trace.session >= 0]):
        old, new = (
            trace.take(np.flatnonzero(trace.session == session)),
            turned.take(np.flatnonzero(turned.session == session)),
        )
        assert old.prompt_tokens.tolist() == new.prompt_tokens.tolist()
        assert old.after.tolist() == new.after.tolist()
        assert old.think_s.tolist() == new.think_s.tolist()
        if trace.arrival_s is not None:
            gaps[0].append(np.diff(old.arrival_s))
            gaps[1].append(np.diff(new.arrival_s))
    before, after = (np.concatenate(parts) for parts in gaps)
    assert after * before.sum() == pytest.approx(before * after.sum())  # one scale for all


@given(traces(timed=True, sessions=False, rows=(2, 30)), st.integers(1, 50))
def test_rotation_keeps_every_gap_but_the_one_it_cuts(trace, number):
    turned = replicate(trace, number, 0)
    gaps, mean = np.diff(trace.arrival_s), np.diff(trace.arrival_s).mean()
    new = np.diff(turned.arrival_s)
    start = next(
        k
        for k in range(1, len(trace))
        if np.allclose(new, np.concatenate([gaps[k:], [mean], gaps[: k - 1]]))
        and np.array_equal(turned.prompt_tokens, np.roll(trace.prompt_tokens, -k))
    )
    assert start >= 1


def test_replicate_0_is_the_trace_itself_and_others_differ():
    trace = Trace(np.arange(1, 400), np.arange(1, 400))
    assert replicate(trace, 0, 5) is trace is replicate(trace, 0, 2**64 - 1)
    firsts = {int(replicate(trace, r, 5).prompt_tokens[0]) for r in range(1, 9)}
    assert len(firsts) == 8
    assert 1 not in firsts


def test_a_short_trace_has_every_rotation_once_before_one_comes_again():
    for seed in range(20):
        turned = [replicate(PLAIN, number, seed).prompt_tokens.tolist() for number in range(5)]
        assert len({tuple(rows) for rows in turned}) == 5
        assert replicate(PLAIN, 5, seed).prompt_tokens.tolist() in turned


def test_a_drawn_workload_is_drawn_anew():
    assert np.array_equal(replicate(DRAWN, 2, 1).prompt_tokens, DRAWN.draw(1, 2).prompt_tokens)


def test_what_was_drawn_but_came_without_its_source_cannot_be_replicated():
    with pytest.raises(InputError, match="draw it again"):
        replicate(DRAWN.draw(0), 1, 0)
    with pytest.raises(InputError, match=">= 0"):
        replicate(PLAIN, -1, 0)


def test_scaling_sets_the_rate_and_keeps_the_shape():
    scaled = scaled_to_rate(PLAIN, 2.0)
    assert rate(scaled) == pytest.approx(2.0)
    assert np.diff(scaled.arrival_s) == pytest.approx(np.diff(PLAIN.arrival_s) * 0.2)
    assert "scaled from 0.4 to 2" in scaled.notes[-1]


def test_a_list_without_times_gets_keyed_poisson_arrivals():
    lengths = Trace(np.ones(500, np.int64), np.ones(500, np.int64))
    first, again, other = (
        scaled_to_rate(lengths, 4.0, 1),
        scaled_to_rate(lengths, 4.0, 1),
        scaled_to_rate(lengths, 4.0, 2),
    )
    assert rate(first) == pytest.approx(4.0, rel=0.2)
    assert np.array_equal(first.arrival_s, again.arrival_s) and not np.array_equal(first.arrival_s, other.arrival_s)
    assert "Poisson" in first.notes[-1]


def test_capacity_is_the_formula():
    trace = Trace(np.array([3, 5]), np.array([4, 1]))
    mean_load = 2 * (4 * 3 + 6 + 5) / 5
    assert capacity(trace, workers=3, slots=2, overhead_s=0.5, per_token_s=0.1) == pytest.approx(
        3 * 2 / (0.5 + 0.1 * mean_load) / 2.5
    )


def test_a_load_of_1_is_the_capacity():
    cluster = {"workers": 2, "slots": 3, "overhead_s": 0.01, "per_token_s": 1e-4}
    assert rate(scaled_to_load(PLAIN, 1.0, **cluster)) == pytest.approx(capacity(PLAIN, **cluster))


def test_a_drawn_workload_is_scaled_after_each_draw():
    cluster = {"workers": 16, "slots": 72, "overhead_s": 0.0049, "per_token_s": 1.1e-7}
    source = rescaled(DRAWN, load=0.5, **cluster)
    assert isinstance(source, Rescaled)
    for number in range(3):
        trace = replicate(source, number, 0)
        assert rate(trace) == pytest.approx(0.5 * capacity(trace, **cluster))
    assert rescaled(PLAIN) is PLAIN


@pytest.mark.parametrize(
    "call",
    [
        lambda: scaled_to_rate(PLAIN, 0.0),
        lambda: scaled_to_rate(PLAIN, float("nan")),
        lambda: scaled_to_rate(replace(PLAIN, arrival_s=np.zeros(5)), 1.0),
        lambda: rescaled(PLAIN, requests_per_s=1.0, load=1.0),
        lambda: scaled_to_load(PLAIN, -1.0, workers=1, slots=1, overhead_s=1, per_token_s=0),
        lambda: capacity(PLAIN, workers=0, slots=1, overhead_s=1, per_token_s=0),
        lambda: capacity(PLAIN, workers=1, slots=1, overhead_s=0, per_token_s=0),
    ],
)
def test_a_rate_or_load_that_cannot_be_had_is_an_error(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"requests_per_s": 1e300}, "--rate: rate is 1e[+]300; expected what gives 1e-06 to 1e[+]09 requests a second"),
        ({"requests_per_s": 1e-300}, "--rate: rate is 1e-300; expected what gives"),
        ({"load": 1e300}, "--load: load is 1e[+]300; expected what gives .* It gives [0-9.]+e[+]30"),
    ],
)
def test_times_are_not_scaled_until_they_have_no_digits_left(asked, message):
    with pytest.raises(InputError, match=message):
        rescaled(PLAIN, **asked, workers=16, slots=72, overhead_s=0.0049, per_token_s=1.1e-7)


def test_sessions_behind_the_end_do_not_lower_the_rate():
    """Each of ten sessions lasts as long as the trace, so a rotation moves rows far behind the end."""
    times = np.sort(np.concatenate([start + np.array([0.0, 100.0]) for start in np.arange(10.0)]))
    session = np.concatenate([np.arange(10), np.arange(10)])
    trace = Trace(np.ones(20, np.int64), np.ones(20, np.int64), times, session=session)
    for number in range(4):
        assert rate(replicate(trace, number, 0)) == pytest.approx(rate(trace))


def test_a_request_without_a_session_is_a_unit_of_its_own():
    session = np.array([-1, 0, -1, 0, 5, 1, -1])
    unit, units = units_of(replace(PLAIN.take(np.zeros(7, np.int64)), session=session))
    assert (unit.tolist(), units) == ([0, 1, 2, 1, 3, 4, 5], 6)


def test_a_trace_of_one_session_is_returned_as_it_is():
    trace = replace(PLAIN, arrival_s=PLAIN.arrival_s + 2.0, session=np.zeros(5, np.int64))
    assert replicate(trace, 3, 0) is trace


def test_the_rate_is_that_of_the_gaps_wherever_the_clock_begins():
    assert rate(Trace(np.ones(2), np.ones(2), arrival_s=np.array([5.0, 7.0]))) == 0.5
    assert np.isnan(rate(Trace(np.ones(1), np.ones(1), arrival_s=np.array([5.0]))))


def test_times_that_a_list_gets_are_those_of_the_key_and_of_replicate_0_without_one():
    lengths = replace(PLAIN, arrival_s=None)
    for key, times in (({}, (0, 0)), ({"seed": 3}, (3, 0)), ({"seed": 3, "replicate": 2}, (3, 2))):
        assert np.array_equal(scaled_to_rate(lengths, 4.0, **key).arrival_s, arrivals.Poisson(4.0).times(5, *times))
