from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.cost.piecewise import Piecewise
from evenstep.cost.view import StepTime
from evenstep.errors import InputError

NONE = np.zeros(0, np.int64)


def local(law, *load):
    return law.local_seconds(np.array(load, np.float64), NONE, np.zeros(0))


def test_lines_go_through_the_knots_and_on_beyond_them():
    law = Piecewise(((10.0, 1.0), (20.0, 2.0), (30.0, 5.0)))
    assert isinstance(law, StepTime)
    assert local(law, 0, 10, 15, 20, 25, 40).tolist() == [0.0, 1.0, 1.5, 2.0, 3.5, 8.0]


def test_the_command_line_and_a_list_give_the_same_law():
    text = names.build("cost", names.parse("piecewise:knots=0:0/100:0.5,overhead-s=0.25,sync-s=4:0.25/8:0.5"))
    listed = names.build(
        "cost",
        {
            "name": "piecewise",
            "knots": [[0, 0], [100, 0.5]],
            "overhead_s": 0.25,
            "sync_s": [[4, 0.25], [8, 0.5]],
        },
    )
    assert text == listed
    assert text.overhead_seconds(6) == 0.25 + 0.375
    assert names.build("cost", names.parse("piecewise:knots=0:0/9:1,sync-s=0.5")).overhead_seconds(3) == 0.5


@given(st.floats(1e-9, 1e-3), st.lists(st.integers(0, 200_000), min_size=1, max_size=9))
def test_two_knots_are_the_linear_law(per_token, load):
    law = Piecewise(((0.0, 0.0), (1.0, per_token)), overhead_s=0.5)
    linear = Linear(overhead_s=0.5, per_token_s=per_token)
    assert local(law, *load) == pytest.approx(local(linear, *load))
    assert law.overhead_seconds(4) == linear.overhead_seconds(4)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"knots": "0:0"}, "knots"),
        ({"knots": "0:1/5:0"}, "knots"),
        ({"knots": "10:1/20:9"}, "knots"),
        ({"knots": "0:0/1:1", "overhead_s": -1.0}, "overhead_s"),
        ({"knots": "0:0/1:1", "sync_s": "x"}, "sync_s"),
    ],
)
def test_a_bad_option_is_named(options, field):
    with pytest.raises(InputError, match=f"^piecewise: {field} is "):
        Piecewise(**options)
