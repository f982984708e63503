"""Lengths kept prompt by prompt."""

from __future__ import annotations

import numpy as np
from tests.predict.asked import active, finished, ints

from evenstep.predict.history import ALL
from evenstep.predict.remembered import Prompts, Reached, Sizes


def test_a_prompt_keeps_its_latest_lengths_while_the_table_grows():
    prompts = Prompts(keys=1000, each=2)
    for key in range(1, 501):
        prompts.learn(finished(1, 10, 20, key=key))
    asked = active(*[0] * 500)
    asked.prompt_key[:] = np.arange(1, 501)
    stays, silent = prompts.curve(asked, 20, 1)
    assert not silent.any()
    assert np.all(stays[:, 9] == 1.0) and np.all(stays[:, 10] == 0.5) and np.all(stays[:, 20] == 0.0)
    assert len(prompts) == 500


def learn(sizes, *completions):
    sizes.begin(*completions)
    sizes.advance(ALL)


def test_sizes_take_quantiles_as_bounds_and_learn_again_from_the_latest():
    sizes = Sizes(buckets=4, window=1000, drift=0.0, running=0, ahead=0)
    prompt = np.arange(1, 201)
    _, silent = sizes.asked(ints(900), ints(7), ints(0), 5, 1)
    assert silent.tolist() == [True]
    learn(sizes, np.arange(200), prompt, prompt * 2)
    assert sizes.bounds.tolist() == [50, 100, 150]
    assert np.searchsorted(sizes.bounds, [1, 50, 51, 200]).tolist() == [0, 0, 1, 3]
    stays, silent = sizes.asked(ints(901, 902), ints(30, 180), ints(0, 0), 400, 1)
    assert silent.tolist() == [False, False]
    assert stays[0, 102] == 0.0 and stays[0, 1] == 1.0
    assert stays[1, 301] == 1.0 and stays[1, 400] == 0.0


def test_running_requests_of_a_size_count_in_its_bucket():
    sizes = Sizes(buckets=2, window=1000, drift=0.0, running=1, ahead=0)
    prompt = np.repeat([10, 1000], 100)
    learn(sizes, np.arange(200), prompt, np.full(200, 9))
    sizes.asked(ints(900, 901), ints(10, 10), ints(50, 50), 1, 1)
    learn(sizes, ints(902), ints(10), ints(60))
    stays, _ = sizes.asked(ints(903, 904), ints(10, 1000), ints(8, 8), 1, 1)
    assert stays[0, 1] == 3 / 103
    assert stays[1, 1] == 0.0


def test_one_size_of_prompts_is_one_bucket():
    sizes = Sizes(buckets=4, window=100, drift=0.0, running=0, ahead=0)
    learn(sizes, np.arange(300), np.full(300, 7), np.full(300, 5))
    stays, silent = sizes.asked(ints(900, 901), ints(7, 3), ints(0, 0), 5, 1)
    assert silent.tolist() == [False, False]
    assert stays.tolist() == [[1.0] * 5 + [0.0]] * 2


def test_how_far_a_key_has_got_is_kept_for_the_keys_met_last():
    reached = Reached(2)
    assert reached.asked(ints(1, 1, 2, 0), ints(5, 3, 4, 9)).tolist() == [5, 5, 4, 9]
    assert reached.asked(ints(1, 3), ints(2, 8)).tolist() == [2, 8], "key 1 has made room for key 3"
    assert reached.asked(ints(2, 3), ints(1, 1)).tolist() == [4, 8]


def test_an_end_clears_how_far_a_key_has_got_unless_another_request_got_further():
    reached = Reached(9)
    reached.asked(ints(1, 2, 3), ints(5, 5, 5))
    reached.ended(ints(1, 2, 0, 4), ints(5, 4, 9, 9))
    assert reached.asked(ints(1, 2, 3), ints(0, 0, 0)).tolist() == [0, 5, 5]
