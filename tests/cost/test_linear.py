from __future__ import annotations

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.linear import Linear, law_of
from evenstep.cost.view import StepTime
from evenstep.errors import InputError

NONE = np.zeros(0, np.int64)


def test_a_step_is_c_plus_t_l_times_the_load():
    law = Linear(overhead_s=1.0, per_token_s=0.5, sync_s=0.25)
    assert isinstance(law, StepTime)
    assert law.local_seconds(np.array([0.0, 3.0]), NONE, np.zeros(0)).tolist() == [0.0, 1.5]
    assert law.overhead_seconds(4) == law.overhead_seconds(64) == 1.25


def test_the_defaults_are_those_of_the_command_line():
    assert names.build("cost", {"name": "linear"}) == Linear(0.0049, 1.1e-7, 0.0)


@pytest.mark.parametrize("sync", [None, (1, 2), [(1,)]])
def test_a_synchronisation_of_another_kind_is_refused(sync):
    with pytest.raises(InputError, match="linear: sync_s is .* expected pairs written x:y/x:y"):
        Linear(sync_s=sync)


@pytest.mark.parametrize("field", ["overhead_s", "per_token_s", "sync_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_seconds_are_finite_and_not_negative(field, value):
    with pytest.raises(InputError, match=f"linear: {field} is"):
        Linear(**{field: value})


def test_a_worker_takes_its_share_of_the_line():
    law = Linear(per_token_s=0.5)
    assert law.local_seconds(np.array([[0.0, 2.0], [4.0, 6.0]]), NONE, NONE).tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_a_law_whose_table_is_no_lines_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    body = "class law:\n    local_seconds = overhead_seconds = lambda self, *given: 0.0\n    def table(self): return [1]\n"
    path.write_text(body)
    with pytest.raises(InputError, match=r"expected a law whose table\(\) is a PiecewiseLinear"):
        law_of(str(path), overhead_s=0.0, per_token_s=0.0, sync_s=0.0)
