"""The compiled door beside the plain one."""

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.scheduling.checks import difference, kernel_call
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.view import BatchDecision


@given(engine_views())
def test_the_compiled_door_answers_like_the_plain_one(view):
    call = kernel_call(Sarathi(), view)
    assert call is not None
    assert difference(Sarathi().form_batch(view), call.decision()) == ""
    assert call.overrun() == ""
    call.guarded["evicted"][-1] = 0
    assert call.overrun() == "the kernel writes beyond the end of evicted"


def test_a_policy_without_a_kernel_has_no_compiled_door():
    assert kernel_call(type("Plain", (), {})(), None) is None  # type: ignore[arg-type]


def test_differences_are_told_by_the_first_field_that_differs():
    def decision(tokens, evict=(False, False), memory=(), wake_s=1.0):
        return BatchDecision(np.array(tokens), np.array(evict), np.array(memory), wake_s)

    one = decision([1, 2])
    assert difference(one, one) == ""
    assert "tokens of 1: plain form_batch answers 2, the kernel 3" in difference(one, decision([1, 3]))
    assert "evict of 0" in difference(one, decision([1, 2], evict=(True, False)))
    assert "memory" in difference(one, decision([1, 2], memory=(4,)))
    assert "wake_s" in difference(one, decision([1, 2], wake_s=2.0))
