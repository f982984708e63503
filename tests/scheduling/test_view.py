"""What a view says of memory, and the contract of an answer: `broken_rule` names what breaks it."""

from dataclasses import replace

import numpy as np
import pytest

from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.order import ARRIVAL
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.view import broken_rule, whole_blocks


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokens": [0]}, "answers tokens as a list; expected an array"),
        ({"tokens": np.array([0.5])}, "answers tokens of dtype float64; expected int64"),
        ({"evict": np.array([1])}, "answers evict of dtype int64; expected bool"),
        ({"memory": (1,)}, "answers memory as a tuple; expected an array"),
        ({"memory": np.zeros(1, np.uint64)}, "answers memory of dtype uint64; expected int64"),
        ({"memory": np.zeros(1, np.int32)}, "answers memory of dtype int32; expected int64"),
    ],
)
def test_an_answer_of_other_types_is_one_sentence(changed, said):
    view = next(view for view in check_views(ARRIVAL, 0) if view.left.size)
    right = Sarathi().form_batch(view)
    assert broken_rule(view, right, 0) == "" == broken_rule(view, replace(right, memory=np.zeros(0)), 0)
    assert broken_rule(view, replace(right, **changed), 0) == said


def test_memory_comes_in_whole_blocks():
    assert [whole_blocks(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]
    assert whole_blocks(17, 1) == 17
