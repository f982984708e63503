"""Keys of the waiting queue: plain and compiled are one function, and each weight does what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.scheduling import order_kernel
from evenstep.scheduling.order import ARRIVAL, QueueOrder, level, order_of
from evenstep.scheduling.view import EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, REACHED

WEIGHTS = st.floats(-3, 3)
TOKENS = st.integers(0, 5000)


@given(
    st.lists(WEIGHTS, min_size=10, max_size=10),
    st.floats(1, 99),
    st.lists(TOKENS, min_size=8, max_size=8),
    st.floats(0, 1e4),
)
def test_a_compiled_key_equals_the_plain_one(weights, quantum, tokens, arrival_s):
    order = QueueOrder(*weights, quantum=quantum, served=weights[0])
    prompt, low, high, produced, reached, lost_at, evictions, attained = tokens
    rows = np.zeros((13, 1), np.int64)
    for field, value in zip(
        (ID, PROMPT, LOW, HIGH, PRODUCED, REACHED, LOST_AT, EVICTIONS),
        (7, prompt, low, high, produced, reached, lost_at, evictions),
        strict=True,
    ):  # fmt: skip
        rows[field, 0] = value
    plain = order.key(
        seed=3, request=7, arrival_s=arrival_s, prompt=prompt, low=low, high=high, produced=produced, reached=reached,
        lost_at=lost_at, evictions=evictions, attained=attained,
    )  # fmt: skip
    assert order_kernel.key_of(order.weights, 3, 0, rows, np.array([arrival_s]), attained) == plain


@given(
    st.lists(WEIGHTS, min_size=10, max_size=10),
    st.lists(st.tuples(st.floats(0, 1e4), TOKENS, TOKENS, TOKENS), min_size=1, max_size=5),
)
def test_keys_of_requests_that_have_run_nothing_are_each_one_s_key(weights, requests):
    order = QueueOrder(*weights)
    arrival_s, prompt, low, high = (np.array(column) for column in zip(*requests, strict=True))
    ids = np.arange(len(requests)) + 7
    keys = order.keys(seed=3, request=ids, arrival_s=arrival_s, prompt=prompt, low=low, high=high)
    for k, (at, p, lo, hi) in enumerate(requests):
        one = order.key(
            seed=3, request=int(ids[k]), arrival_s=at, prompt=p, low=lo, high=hi, produced=0, reached=0,
            lost_at=0, evictions=0, attained=0,
        )  # fmt: skip
        assert keys[k] == one


def test_a_level_doubles():
    assert [level(n, 10.0) for n in (0, 9, 10, 19, 20, 39, 40)] == [0, 0, 1, 1, 2, 2, 3]


def test_a_policy_without_an_order_is_shown_first_come_first():
    assert order_of(object()) is ARRIVAL


@pytest.mark.parametrize(("field", "value"), [("arrival", float("nan")), ("quantum", 0.0)])
def test_a_bad_weight_is_named(field, value):
    with pytest.raises(InputError, match=field):
        QueueOrder(**{field: value})
