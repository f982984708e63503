from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.checks import check_trace
from evenstep.workload.statistics import digest
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.synthetic import Recurring, RequestClass, Synthetic

CHAT = Synthetic(1000, laws.Lognormal(1.15, mu=6.1, low=4, high=4096), laws.Gamma(1.5, 180, high=2000), arrivals.Poisson(4))


def test_the_same_key_draws_the_same_trace_and_another_key_another():
    digests = {digest(CHAT.draw(seed, replicate)) for seed in (0, 1) for replicate in (0, 1)}
    assert len(digests) == 4
    assert digest(CHAT.draw(1, 1)) in digests


def test_a_draw_says_that_it_is_one():
    trace = check_trace(CHAT.draw(7), "x")
    assert trace.synthetic and trace.format == "synthetic"
    assert trace.notes == ("Synthetic: drawn with seed 7, replicate 0.",)


def test_prompt_output_and_times_are_drawn_apart():
    trace = CHAT.draw(0)
    assert abs(np.corrcoef(trace.prompt_tokens, trace.output_tokens)[0, 1]) < 0.1
    assert abs(np.corrcoef(trace.prompt_tokens[1:], np.diff(trace.arrival_s))[0, 1]) < 0.1


def test_a_capped_output_sets_max_tokens():
    trace = Synthetic(50, laws.Constant(5), laws.Capped(laws.Geometric(100), 30)).draw(0)
    assert set(trace.max_tokens.tolist()) == {30}
    assert trace.output_tokens.max() == 30
    assert trace.arrival_s is None


def test_recurring_prompts_bring_their_lengths_with_them():
    trace = Synthetic(3000, laws.Uniform(10, 900), laws.Uniform(1, 400), recurring=Recurring(keys=40, jitter=3)).draw(0, 1)
    assert set(trace.prompt_key.tolist()) == set(range(1, 41))
    for key in range(1, 41):
        rows = trace.prompt_key == key
        assert np.unique(trace.prompt_tokens[rows]).size == 1
        assert np.ptp(trace.output_tokens[rows]) <= 6
    assert trace.output_tokens.min() >= 1


def test_recurring_outputs_stay_within_their_cap():
    law = laws.Capped(laws.Gamma(1.5, 60), 50)
    trace = Synthetic(400, laws.Uniform(10, 200), law, recurring=Recurring(keys=20, jitter=8)).draw(0)
    assert trace.output_tokens.max() == 50
    assert set(trace.max_tokens.tolist()) == {50}


def test_impossible_workloads_are_refused():
    with pytest.raises(InputError, match="requests is 0"):
        Synthetic(0, laws.Constant(1), laws.Constant(1))
    with pytest.raises(InputError, match="keys is 0"):
        Recurring(0)
    with pytest.raises(InputError, match="jitter is -1"):
        Recurring(1, -1)


def test_classes_come_in_proportion_to_their_shares_with_lengths_of_their_own():
    classes = (
        RequestClass(3),
        RequestClass(1, prompt=laws.Constant(7), output=laws.Capped(laws.Geometric(9), 5)),
    )
    trace = Synthetic(4000, laws.Constant(5), laws.Geometric(50), classes=classes).draw(1)
    second = trace.request_class == 1
    assert 0.23 < second.mean() < 0.27
    assert set(trace.prompt_tokens[second]) == {7} and set(trace.prompt_tokens[~second]) == {5}
    assert trace.output_tokens[second].max() == 5 and set(trace.max_tokens[~second]) == {0}


def test_a_single_class_changes_no_length():
    plain = CHAT.draw(3)
    classed = Synthetic(1000, CHAT.prompt, CHAT.output, CHAT.arrivals, classes=(RequestClass(1.0),)).draw(3)
    assert np.array_equal(plain.prompt_tokens, classed.prompt_tokens)
    assert np.array_equal(plain.output_tokens, classed.output_tokens)
    assert plain.request_class is None and set(classed.request_class) == {0}


@pytest.mark.parametrize("share", [0, -1, float("inf"), float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InputError, match="class: share is "):
        RequestClass(share)


def test_classes_beside_recurring_prompts_have_no_laws():
    with pytest.raises(InputError, match="no laws of lengths with recurring"):
        Synthetic(5, CHAT.prompt, CHAT.output, recurring=Recurring(2), classes=(RequestClass(1, laws.Constant(1)),))
