"""How many segments Nested WAIT should have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.cost.affine_kv import AffineKv
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory.fluid import Types, equilibrium
from evenstep.theory.nested_thresholds import doubts, solve, with_slack
from evenstep.theory.segments import best, designs, expected_latency_s, least_kv_tokens, merged

CHANCE = 0.97 ** np.arange(60)
TYPES = Types((300 * CHANCE / CHANCE.sum()).tolist(), (20,) * 60, tuple(range(1, 61)), 0.01, 1e-6)


@given(st.integers(1, 60))
def test_segments_share_the_types_evenly_and_keep_their_rate(count):
    parts = merged(TYPES, count)
    ends = np.array(parts.output_tokens)
    sizes = np.diff([0, *ends])
    assert ends[-1] == 60 and sizes.max() - sizes.min() <= 1
    assert sum(parts.arrivals_per_s) == pytest.approx(300.0)
    assert parts.arrivals_per_s[0] == pytest.approx(sum(TYPES.arrivals_per_s[: sizes[0]]))


def test_as_many_segments_as_types_change_nothing():
    assert merged(TYPES, 60).arrivals_per_s == pytest.approx(TYPES.arrivals_per_s)
    assert designs(TYPES, (60,))[0].solved.thresholds.tolist() == solve(TYPES).thresholds.tolist()


@given(st.sets(st.integers(1, 60), min_size=1, max_size=6))
def test_the_best_needs_the_least_and_keeps_the_conditions(counts):
    found, tried = best(TYPES, sorted(counts)), designs(TYPES, sorted(counts))
    assert found.segments in counts
    assert found.solved.enough_kv_tokens == min(one.solved.enough_kv_tokens for one in tried)
    assert not doubts(merged(TYPES, found.segments), found.solved.thresholds, found.solved.enough_kv_tokens)
    assert found.solved.kv_tokens >= least_kv_tokens(TYPES)
    assert found.queue_kv_tokens >= 0


def test_known_types_need_the_memory_of_the_fluid_equilibrium():
    assert least_kv_tokens(TYPES) == pytest.approx(equilibrium(TYPES).kv_tokens)


def test_numbers_that_cannot_keep_up_are_left_out_and_too_little_memory_is_refused():
    dear = Types(TYPES.arrivals_per_s, TYPES.prompt_tokens, TYPES.output_tokens, 0.01, 0.9 / TYPES.load * 1e-6)
    assert 1 not in [one.segments for one in designs(dear, (1, 30, 60))]
    with pytest.raises(InputError, match="load"):
        designs(dear, (1,))
    needed = best(TYPES).solved.enough_kv_tokens
    with pytest.raises(InputError, match="at least"):
        best(TYPES, kv_tokens=needed / 2)
    for count in (0, 1.5, 61):
        with pytest.raises(InputError, match="segments"):
            merged(TYPES, count)


def test_the_expected_latency_by_hand():
    """T = 1 s, stages of 10 / 4 s. Before: 9 others over 8 a second, and 1 / (2 (10 - 4)); at the head .375 requests, 1 a second."""
    types = Types((3.0, 1.0), (20, 20), (10, 30), 1.0, 0.0)
    solved = replace(with_slack(types, 0.0, iterations=1.0, delta=0.1), thresholds=np.array([10, 5]))
    first = 9 / 8 + 1 / 12
    wanted = (3 * (11 * 2.5 + first) + 31 * 2.5 + first + 0.375) / 4
    assert expected_latency_s(types, types, solved) == pytest.approx(wanted)
    merged_first = Types((4.0,), (20,), (30,), 1.0, 0.0)
    one = replace(with_slack(merged_first, 0.0, iterations=1.0, delta=0.1), thresholds=np.array([10]))
    assert expected_latency_s(types, merged_first, one) == pytest.approx((3 * 11 + 31) * 2.5 / 4 + first)


def test_every_number_is_tried_and_what_queues_need_is_the_rest():
    few = Types((3.0, 2.0, 1.0), (20,) * 3, (10, 20, 30), 0.1, 1e-6)
    tried = designs(few)
    assert [one.segments for one in tried] == [1, 2, 3]
    for one in tried:
        assert one.queue_kv_tokens == one.solved.enough_kv_tokens - one.solved.kv_tokens
    needed = best(few).solved.enough_kv_tokens
    assert best(few, kv_tokens=needed).solved.enough_kv_tokens == needed


def test_a_segment_that_no_request_reaches_adds_nothing():
    types = Types((4.0, 0.0), (20, 20), (10, 30), 1.0, 0.0)
    solved = replace(with_slack(types, 0.0, iterations=1.0, delta=0.1), thresholds=np.array([10, 1]))
    assert expected_latency_s(types, types, solved) == pytest.approx(11 * 2.5 + 9 / 8 + 1 / 12)


def test_each_head_adds_its_own_queue_over_the_rate_at_which_it_is_reached():
    """Stages of 10 / 8 s; at the second head .375 requests, 2 a second, at the third 5 * 3/16 / 5.5, one in 2 s."""
    types = Types((6.0, 1.5, 0.5), (20,) * 3, (10, 30, 40), 1.0, 0.0)
    solved = replace(with_slack(types, 0.0, iterations=1.0, delta=0.1), thresholds=np.array([10, 5, 4]))
    first = 9 / 16 + 1 / 4
    second = first + 0.375 / 2
    third = second + 5 * 0.1875 / 5.5 / 0.5
    wanted = (6 * (11 * 1.25 + first) + 1.5 * (31 * 1.25 + second) + 0.5 * (41 * 1.25 + third)) / 8
    assert expected_latency_s(types, types, solved) == pytest.approx(wanted)


def test_the_expected_latency_is_an_upper_estimate_of_a_simulated_one():
    """Kingman's bound on queues makes it one; here the simulated latency is 0.81 of it."""
    types = Types((173.0, 130.0, 86.0, 43.0), (50,) * 4, (5, 10, 20, 40), 0.01, 1.6e-6)
    solved = with_slack(types, 0.0, iterations=1e6, delta=0.01)
    rng = np.random.default_rng(1)
    count = 432 * 30
    outputs = rng.choice(types.output_tokens, count, p=np.array(types.arrivals_per_s) / 432)
    trace = Trace(np.full(count, 50), outputs, arrival_s=np.cumsum(rng.exponential(1 / 432, count)), synthetic=True)
    run = simulate_engine(
        trace,
        NestedWait(tuple(solved.thresholds.tolist()), (5, 10, 20)),
        batch_time=AffineKv(types.d0_s, types.d1_s),
        engine=Engine(token_budget=0, batch_limit=0, first_token="decode"),
        records=False,
        until_s=float(trace.column("arrival_s")[-1]),
    )
    assert 0.75 < run.summary["e2e_mean_s"] / expected_latency_s(types, types, solved) < 1


def test_no_number_of_segments_is_one_clear_error():
    with pytest.raises(InputError, match=r"counts is .*; expected at least one number of segments"):
        designs(TYPES, ())
