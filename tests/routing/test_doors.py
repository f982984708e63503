"""The compiled door beside the plain one."""

from __future__ import annotations

import numpy as np
from tests.routing._routed import moment

from evenstep.routing.doors import difference, kernel_call
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.view import RoutingDecision

VIEW = moment([0, 0], [1, 2], [5, 5, 5])


class NoKernel:
    def route(self, view):
        return RoutingDecision(np.full(view.waiting_id.size, -1, np.int64))


def test_a_policy_without_a_kernel_has_no_compiled_door():
    assert kernel_call(NoKernel(), VIEW) is None


def test_the_compiled_door_answers_like_the_plain_one():
    assert kernel_call(FCFS(), VIEW).decision().worker.tolist() == FCFS().route(VIEW).worker.tolist() == [1, 0, 1]


def test_a_write_beyond_the_scratch_is_seen():
    call = kernel_call(FCFS(), VIEW)
    call.decision()
    assert call.overrun() == ""
    call.guarded["scratch_f"][-1] = 0.0
    assert call.overrun() == "the kernel writes beyond the end of scratch_f"


def test_differences_are_told_by_the_first_field_that_differs():
    a = RoutingDecision(np.array([0, 1]), np.array([1]))
    none = np.array([0])
    assert difference(a, a, none) == ""
    assert "request 1: plain route answers 1, the kernel -1" in difference(a, RoutingDecision(np.array([0, -1])), none)
    assert "memory: plain route keeps [1], the kernel [0]" in difference(a, RoutingDecision(np.array([0, 1])), none)
    assert "bound" in difference(a, RoutingDecision(np.array([0, 1]), np.array([1]), 2.0), none)
