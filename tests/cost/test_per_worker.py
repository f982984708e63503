from __future__ import annotations

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.cost.per_worker import PerWorker
from evenstep.cost.view import StepTime
from evenstep.errors import InputError

NONE = np.zeros(0, np.int64)


def local(law, *load):
    return law.local_seconds(np.array(load, np.float64), NONE, np.zeros(0))


def test_half_the_speed_takes_twice_the_time():
    law = PerWorker((1.0, 0.5), per_token_s=0.25)
    assert isinstance(law, StepTime)
    assert local(law, 8, 8).tolist() == [2.0, 4.0]


def test_a_shorter_list_is_repeated_over_the_fleet():
    assert local(PerWorker((1.0, 0.5), per_token_s=0.25), 8, 8, 8, 8).tolist() == [2.0, 4.0, 2.0, 4.0]


def test_speed_1_is_the_linear_law():
    assert local(PerWorker("1"), 1, 100, 1e5) == pytest.approx(local(Linear(), 1, 100, 1e5))
    assert PerWorker("1", sync_s=0.5).overhead_seconds(16) == Linear(sync_s=0.5).overhead_seconds(16)


def test_the_command_line_repeats_with_a_star():
    law = names.build("cost", names.parse("per-worker:speed=2*1/2*0.5,per-token-s=0.5"))
    assert law == PerWorker((1.0, 1.0, 0.5, 0.5), per_token_s=0.5)
    assert local(law, 2, 2, 2, 2).tolist() == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"speed": ()}, "speed"),
        ({"speed": "1/0"}, r"speed\[1\]"),
        ({"speed": "5e-324"}, r"speed\[0\]"),
        ({"speed": (1.0, -2.0)}, r"speed\[1\]"),
        ({"speed": "1", "per_token_s": -1.0}, "per_token_s"),
        ({"speed": "1", "overhead_s": float("inf")}, "overhead_s"),
    ],
)
def test_a_bad_option_is_named(options, field):
    with pytest.raises(InputError, match=f"^per-worker: {field} is "):
        PerWorker(**options)
