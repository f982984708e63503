from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.cost.piecewise import Piecewise
from evenstep.cost.unequal import Unequal
from evenstep.cost.view import StepTime
from evenstep.errors import InputError
from evenstep.experiments.papers import decode_skew


def local(law, load, running, longest):
    return law.local_seconds(np.array(load, np.float64), np.array(running, np.int64), np.array(longest, np.float64)).tolist()


def test_one_long_request_costs_a_share_of_what_equal_ones_as_long_would():
    law = Unequal(share=0.25, per_token_s=0.5)
    assert isinstance(law, StepTime)
    # 60 tokens: three of 20; one of 40 and two of 10; 40 in one request alone; nobody
    assert local(law, [60, 60, 40, 0], [3, 3, 1, 0], [20, 40, 40, 0]) == [30.0, 37.5, 20.0, 0.0]


def test_lines_through_knots_are_read_at_the_load_with_its_share():
    law = Unequal(share=0.5, knots="0:0/10:1/20:4", overhead_s=0.25)
    assert local(law, [10, 10], [2, 2], [5, 10]) == [1.0, 2.5]
    assert law.overhead_seconds(4) == 0.25 and law.table().longest_share == 0.5


@given(
    st.lists(
        st.tuples(st.integers(0, 200_000), st.integers(0, 99), st.integers(0, 200_000)),
        min_size=1,
        max_size=9,
    )
)
def test_without_a_share_it_is_the_law_without_it(workers):
    load, running, longest = (np.array(x, np.float64) for x in zip(*workers, strict=True))
    assert local(Unequal(share=0), load, running, longest) == pytest.approx(local(Linear(), load, running, longest))
    knots = "0:0/40000:0.003/110000:0.012"
    assert local(Unequal(share=0, knots=knots), load, running, longest) == local(Piecewise(knots), load, running, longest)


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=72), st.floats(0, 1))
def test_it_lies_between_the_sum_and_all_as_long_as_the_longest(contexts, share):
    n, most, law = len(contexts), max(contexts), Unequal(share=share)
    low, is_, high = local(law, [sum(contexts)] * 2 + [n * most], [n] * 3, [sum(contexts) / n, most, most])
    assert low * (1 - 1e-12) <= is_ <= high * (1 + 1e-12)


def test_the_command_line_and_a_list_give_the_same_law():
    text = names.build("cost", names.parse("unequal:share=0.1,knots=0:0/100:0.5,sync-s=4:0.25/8:0.5"))
    listed = {"name": "unequal", "share": 0.1, "knots": [[0, 0], [100, 0.5]], "sync_s": [[4, 0.25], [8, 0.5]]}
    assert text == names.build("cost", listed)
    assert text.overhead_seconds(6) == 0.0049 + 0.375
    assert names.build("cost", names.parse("unequal")) == Unequal()


@pytest.mark.slow
def test_the_default_share_is_the_measured_one():
    for name in decode_skew.NAMES[:2]:
        alone = decode_skew.parted(decode_skew.table(name))["decodes alone"]
        assert decode_skew.share(decode_skew.served(alone)) == pytest.approx(Unequal().share, abs=5e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"share": -0.1}, "share is -0.1; expected a share in 0..1"),
        ({"share": 1.5}, "share is 1.5; expected a share in 0..1"),
        ({"share": float("nan")}, "share is nan; expected a share in 0..1"),
        ({"overhead_s": -1.0}, "overhead_s is -1.0; "),
        ({"per_token_s": float("inf")}, "per_token_s is inf; "),
        ({"sync_s": -1.0}, "sync_s is -1.0; "),
        ({"knots": "0:0"}, "knots is '1 knots'; "),
        ({"knots": "10:1/20:9"}, "knots is '10:1'; expected a first line not below 0"),
        ({"knots": "0:0/1:1", "per_token_s": 1e-6}, "per_token_s is 1e-06; expected no value when knots are given"),
    ],
)
def test_a_bad_option_is_named(options, said):
    with pytest.raises(InputError) as error:
        Unequal(**options)
    assert str(error.value).startswith(f"unequal: {said}")
