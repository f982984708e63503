"""When the calls of tasks are due."""

from __future__ import annotations

import numpy as np
from tests.sim.network.networks import call, one_engine

from evenstep.load.workflow import Workflow
from evenstep.sim.network.tasks import draw


def forked(speed: float = 1.0) -> Workflow:
    """One task: a call, two after it, and one after both, 2 s later."""
    calls = {"plan": call("one"), "left": call("one", after=["plan"]), "right": call("one", after=["plan"])}
    calls["join"] = call("one", after=["left", "right"], delay_s=2.0)
    drawn = draw(one_engine(calls, count=1))
    drawn.arrival_s[0] = 6.0
    return Workflow(drawn, ["one"] * 4, np.array([-0.5, 0.5, 1.5, 2.5]), 100.0, speed)


def test_a_call_is_due_when_all_its_parents_have_ended_and_its_delay_is_over():
    flow = forked()
    assert flow.next_s == 6.0 and flow.due(5.9) is None and flow.due(6.0) == (0, 6.0) and flow.next_s is None
    flow.ended(0, 7.5)
    assert [flow.due(7.5), flow.due(7.5), flow.due(7.5)] == [(1, 7.5), (2, 7.5), None]
    flow.ended(2, 8.0)
    assert flow.next_s is None
    flow.ended(1, 9.0)
    assert flow.next_s == 11.0 and flow.due(11.0) == (3, 11.0) and not flow.is_over
    flow.ended(3, 12.0)
    assert flow.is_over and (flow.started, flow.finished) == (4, 4)


def test_speed_shortens_times_delays_and_the_run():
    flow = forked(speed=4.0)
    assert flow.until_s == 25.0 and flow.next_s == 1.5
    for _ in range(3):
        found = flow.due(10.0)
        assert found is not None
        flow.ended(found[0], 10.0)
    assert flow.next_s == 10.5


def test_a_call_says_its_task_and_its_priority():
    assert forked().lines(2) == b"X-Evenstep-Task: task-0\r\nX-Evenstep-Priority: 1.5\r\n"


def test_a_first_call_waits_for_its_own_delay():
    drawn = draw(one_engine({"plan": call("one", delay_s=2.0)}, count=1))
    drawn.arrival_s[0] = 6.0
    assert Workflow(drawn, ["one"], np.zeros(1), speed=4.0).next_s == 2.0
