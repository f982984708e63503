"""The pace of prefills: it finds the knee of an engine it knows nothing of, and holds nothing back where there is none."""

import numpy as np
import pytest

from evenstep.scheduling.adaptive import iteration_time as pace
from evenstep.scheduling.adaptive import prefill_pacing as knee


def flat_then_rising(tokens):
    return 0.03 + 0.0003 * max(0, tokens - 96)


def lived(batches, seconds_of=flat_then_rising):
    """What is known after batches of (prefill tokens, decodes)."""
    memory, now = np.zeros(knee.MEMORY, np.int64), 0.0
    for prefill, decodes in [*batches, (0, 0)]:
        knee.learned(memory, now, 1)
        knee.note(memory, prefill, decodes)
        pace.note(memory, now, prefill + decodes)
        now += seconds_of(prefill + decodes)
    return memory


#: Mostly decodes, and chunks of several sizes.
USUAL = [(0, 10)] * 200 + [(500, 10), (300, 10), (0, 10)] * 8


def test_the_knee_is_found():
    memory = lived(USUAL)
    assert knee.budget(memory, 10, 0, 512) == pytest.approx(96, abs=1)
    assert memory[knee.KNEE] == pytest.approx(96, abs=1)


def test_what_has_to_be_prefilled_in_the_long_run_is_not_held_back():
    memory = lived([(0, 10)] * 20 + [(500, 10), (300, 10)] * 12)
    needed = 10 * (1 + 24 * 400 / (44 * 10))
    assert knee.budget(memory, 10, 0, 512) == pytest.approx(needed, abs=1) != 96


def test_a_prefill_hurries_for_those_behind_it_and_where_nobody_decodes():
    memory = lived(USUAL)
    assert knee.budget(memory, 10, 200, 512) == 512
    assert knee.budget(memory, 0, 0, 512) == 512


@pytest.mark.parametrize("law", [lambda t: 0.02 + 1e-4 * t, lambda _: 0.02])
def test_without_a_knee_nothing_is_held_back(law):
    memory = lived(USUAL, law)
    assert knee.budget(memory, 10, 0, 512) == 512
    assert memory[knee.PRICE] == 0


def test_a_knee_whose_tokens_turn_out_to_cost_time_is_left_again():
    def rising(tokens):
        return 0.03 + 0.0001 * max(0, tokens - 96)

    def any_prefill_costs(tokens):
        return 0.03 if tokens <= 10 else 0.007 + rising(tokens)

    seen = [*USUAL, *[(86, 10)] * 30]
    assert knee.budget(lived(seen, rising), 10, 0, 512) < 512
    assert knee.budget(lived(seen, any_prefill_costs), 10, 0, 512) == 512


def mixes(seconds_of_mixed):
    """What is known of an engine that runs 400 prefill tokens in 20 ms and ten decodes in 10."""

    def seconds_of(prefill, decodes):
        return seconds_of_mixed if prefill and decodes else 0.02 if prefill else 0.01

    memory, now = np.zeros(knee.MEMORY, np.int64), 0.0
    for prefill, decodes in [(400, 0), (0, 10), (400, 10)] * 20 + [(0, 0)]:
        knee.learned(memory, now, 1)
        knee.note(memory, prefill, decodes)
        pace.note(memory, now, prefill + decodes)
        now += seconds_of(prefill, decodes)
    return memory


def test_prefills_run_apart_where_a_mixed_batch_takes_longer_than_one_of_each():
    assert knee.apart(mixes(0.036))
    assert not knee.apart(mixes(0.031))
    assert not knee.apart(np.zeros(knee.MEMORY, np.int64))


def test_one_batch_with_prefills_in_so_many_is_run_the_other_way_round_to_learn():
    memory = mixes(0.036)
    memory[knee.PREFILLS] = knee.PROBES - 1
    assert not knee.apart(memory)
    memory = mixes(0.031)
    memory[knee.PREFILLS] = 5 * knee.PROBES - 1
    assert knee.apart(memory)
    hopeless = mixes(0.020)
    hopeless[knee.PREFILLS] = 5 * knee.PROBES - 1
    assert not knee.apart(hopeless)
    hopeless[knee.PREFILLS] = knee.SELDOM * knee.PROBES - 1
    assert knee.apart(hopeless)


def test_time_without_requests_is_no_iteration():
    memory = lived(USUAL)
    before = memory.copy()
    knee.learned(memory, 1e6, 0)
    assert np.array_equal(memory, before)
