"""A token budget learned from iterations: it finds the line they lie on, and never starves decodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.scheduling.adaptive import iteration_time as pace


def after(batches, flat=2**-6, slope=2**-13):
    memory, now = np.zeros(pace.MEMORY, np.int64), 0.0
    for tokens in batches:
        pace.learned(memory, now, 1)
        pace.note(memory, now, tokens)
        now += flat + slope * tokens
    pace.learned(memory, now, 1)
    return memory


@given(st.lists(st.integers(1, 2000), min_size=20, max_size=60), st.floats(0.03, 0.3))
def test_the_budget_lasts_as_long_as_the_target(batches, target_s):
    if len(set(batches[-12:])) < 2:
        return
    found = pace.budget(after(batches), target_s, 3, 1 << 40)
    assert found == pytest.approx((target_s - 2**-6) / 2**-13, rel=1e-6, abs=0.6)


@given(st.floats(1e-3, 1.0), st.sampled_from([1.0, -1.0, 3.0]))
def test_a_clock_s_rounding_errors_are_not_learned(seconds, sign):
    assert pace.quantised(seconds) == pytest.approx(seconds, abs=0.5 / pace.QUANTA)
    whole = pace.quantised(seconds)
    assert pace.quantised(whole + sign * 1e-10) == whole


def test_decodes_always_run_and_nothing_is_guessed():
    assert pace.budget(after([100, 200] * 10), 0.0, 40, 2048) == 40 + pace.LEAST
    assert pace.budget(np.zeros(pace.MEMORY, np.int64), 0.05, 40, 2048) == 2048
    assert pace.budget(after([100] * 40), 0.05, 40, 2048) == 2048


def test_time_in_which_the_engine_may_have_been_idle_is_not_learned():
    memory = after([100, 200] * 10)
    before = memory.copy()
    pace.learned(memory, 1e6, 0)
    assert memory.tolist() == before.tolist()
