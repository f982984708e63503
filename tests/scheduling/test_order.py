"""Keys of the waiting queue: each weight does what it says, alone and with the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import queue_order
from tests.scheduling._keys import key_of_one

from evenstep import streams
from evenstep.errors import InputError
from evenstep.scheduling.order import ARRIVAL, QueueOrder, key_of, level, order_of, share_of_bounds
from evenstep.scheduling.view import EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, REACHED

WEIGHTS = st.floats(-3, 3)
TOKENS = st.integers(0, 5000)
#: One request: every number is another.
REQUEST = {
    "request": 7,
    "arrival_s": 1.5,
    "prompt": 100,
    "low": 20,
    "high": 300,
    "produced": 4,
    "reached": 60,
    "lost_at": 50,
    "evictions": 2,
    "attained": 170,
}


def keyed(order, **more):
    return key_of_one(order, seed=3, **REQUEST | more)


@pytest.mark.parametrize(
    ("weights", "key"),
    [
        ({"arrival": 2.0}, 3.0),
        ({"prompt": 2.0}, 200.0),
        ({"low": 1.0}, 20.0),
        ({"high": 1.0}, 300.0),
        ({"produced": -1.0}, -4.0),
        ({"low": 1.0, "produced": -1.0}, 16.0),
        ({"reached": 1.0}, 60.0),
        ({"learned": 1.0}, 50.0),
        ({"raised": 1.0}, 60.0),
        ({"chance": 1.0}, streams.uniform(3, "queue-order", 7)),
        ({"level": 1.0, "quantum": 50.0}, 2.0),
        ({"served": 1.0, "quantum": 50.0}, 2.0),
        ({"served": 1.0, "quantum": 100.0}, 1.0),
    ],
)
def test_each_weight_counts_its_own_feature(weights, key):
    assert keyed(QueueOrder(**weights)) == key


def test_the_most_tokens_a_request_ever_had_may_be_those_it_has():
    assert keyed(QueueOrder(reached=1.0), produced=90) == 90
    assert keyed(QueueOrder(served=1.0, quantum=47.5), produced=90) == 3


def test_a_bound_is_learned_at_an_eviction_and_never_lowered_when_it_is_raised():
    assert keyed(QueueOrder(learned=1.0), evictions=0) == 20
    assert keyed(QueueOrder(learned=1.0), evictions=1, lost_at=5) == 5
    assert keyed(QueueOrder(raised=1.0), reached=5) == 20


@given(
    st.lists(WEIGHTS, min_size=10, max_size=10),
    st.floats(1, 99),
    st.lists(TOKENS, min_size=8, max_size=8),
    st.floats(0, 1e4),
)
def test_a_key_is_the_sum_of_all_that_its_oracle_adds_up(weights, quantum, tokens, arrival_s):
    order = QueueOrder(*weights, quantum=quantum, served=weights[0])
    names = ("prompt", "low", "high", "produced", "reached", "lost_at", "evictions", "attained")
    known = dict(zip(names, tokens, strict=True))
    expected = queue_order.key(order, 3, 7, arrival_s, known)
    assert key_of_one(order, seed=3, request=7, arrival_s=arrival_s, **known) == expected
    rows = np.zeros((13, 2), np.int64)
    rows[[PROMPT, LOW, HIGH, PRODUCED, REACHED, LOST_AT, EVICTIONS], 1] = tokens[:7]
    rows[ID, 1] = 7
    assert key_of(order.weights, 3, 1, rows, np.array([0.0, arrival_s]), tokens[7]) == expected


@given(
    st.lists(WEIGHTS, min_size=10, max_size=10),
    st.lists(st.tuples(st.floats(0, 1e4), TOKENS, TOKENS, TOKENS), min_size=1, max_size=5),
)
def test_keys_of_requests_that_have_run_nothing_are_each_one_s_key(weights, requests):
    order = QueueOrder(*weights)
    arrival_s, prompt, low, high = (np.array(column) for column in zip(*requests, strict=True))
    ids, rows = np.arange(len(requests)) + 7, np.zeros((13, len(requests)), np.int64)
    rows[[ID, PROMPT, LOW, HIGH]] = ids, prompt, low, high
    keys = order.keys(3, rows, arrival_s)
    for k, (at, p, lo, hi) in enumerate(requests):
        one = key_of_one(
            order,
            seed=3,
            request=int(ids[k]),
            arrival_s=at,
            prompt=p,
            low=lo,
            high=hi,
            produced=0,
            reached=0,
            lost_at=0,
            evictions=0,
            attained=0,
        )
        assert keys[k] == one


def test_a_level_doubles():
    assert [level(n, 10.0) for n in (0, 9, 10, 19, 20, 39, 40)] == [0, 0, 1, 1, 2, 2, 3]


def test_a_policy_without_an_order_is_shown_first_come_first():
    assert order_of(object()) is ARRIVAL


@pytest.mark.parametrize(("field", "value"), [("arrival", float("nan")), ("quantum", 0.0)])
def test_a_bad_weight_is_named(field, value):
    with pytest.raises(InputError, match=field):
        QueueOrder(**{field: value})


def test_each_statistic_is_a_point_between_the_bounds():
    assert [np.dot(share_of_bounds(s), (10, 30)) for s in ("low", "middle", "high")] == [10, 20, 30]
