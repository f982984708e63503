from __future__ import annotations

import numpy as np
import pytest

from evenstep.workload.readers import agent_lines
from evenstep.workload.readers.agent_lines import Call, Helper, linked


def link(calls: list[Call], helpers: list[Helper]):
    order, session, after, think = linked(calls, helpers, np.ones(len(calls), bool))
    return order.tolist(), session.tolist(), after.tolist(), think.tolist()


def test_a_line_follows_itself_after_its_think_times():
    calls = [Call(0, -1, 0.0, 4.0, 0.0), Call(0, -1, 9.0, 1.0, 5.0), Call(0, -1, 20.0, 1.0, None)]
    assert link(calls, []) == ([0, 1, 2], [0, 0, 0], [-1, 0, 1], [0.0, 5.0, 10.0])


def test_a_sub_agent_starts_its_duration_before_its_marker_and_is_waited_for():
    calls = [
        Call(0, -1, 0.0, 5.0, 0.0),
        Call(0, 0, 0.0, 4.0, 0.0),
        Call(0, 0, 6.0, 3.0, 2.0),
        Call(0, -1, 18.0, 1.0, 13.0),
    ]
    order, _, after, think = link(calls, [Helper(marker_s=15.5, duration_s=10.0)])
    assert (order, after) == ([0, 1, 2, 3], [-1, 0, 1, 2])
    assert think == [0.0, 0.5, 2.0, 18.0 - (5.5 + 6.0 + 3.0)]


def test_the_main_line_waits_for_the_last_of_several_sub_agents():
    calls = [
        Call(0, -1, 0.0, 2.0, 0.0),
        Call(0, 0, 0.0, 3.0, 0.0),
        Call(0, 1, 0.0, 8.0, 0.0),
        Call(0, -1, 12.0, 1.0, 10.0),
    ]
    order, _, after, _ = link(calls, [Helper(5.0, 3.0), Helper(10.0, 8.0)])
    assert order[after[order.index(3)]] == 2


def test_an_asynchronous_sub_agent_holds_nobody_up():
    calls = [Call(0, -1, 0.0, 2.0, 0.0), Call(0, 0, 0.0, 30.0, 0.0), Call(0, -1, 6.0, 1.0, 4.0)]
    order, _, after, think = link(calls, [Helper(2.5, 0.0, awaited=False)])
    row = order.index(2)
    assert (order[after[row]], think[row]) == (0, 4.0)


def test_a_marker_without_a_duration_takes_the_span_of_its_requests():
    calls = [Call(0, -1, 0.0, 5.0, 0.0), Call(0, 0, 0.0, 4.0, 0.0), Call(0, 0, 6.0, 4.0, 2.0)]
    assert link(calls, [Helper(16.0, None)])[3] == [0.0, 1.0, 2.0]


def test_a_sub_agent_that_would_begin_before_the_session_starts_at_its_marker():
    calls = [Call(0, -1, 10.0, 1.0, 0.0), Call(0, 0, 0.0, 50.0, 0.0)]
    assert link(calls, [Helper(12.0, None)])[3] == [0.0, 1.0]


def test_a_session_may_be_a_sub_agent_alone():
    assert link([Call(0, 0, 0.0, 1.0, None), Call(0, 0, 3.0, 1.0, None)], [Helper(9.0, 4.0)])[2:] == (
        [-1, 0],
        [0.0, 2.0],
    )


@pytest.mark.parametrize("seed", range(20))
def test_links_point_upwards_within_a_session_whatever_was_recorded(seed):
    random = np.random.default_rng(seed)
    calls, helpers = [], []
    for session in range(3):
        for start in np.sort(random.integers(0, 100, 8)):
            if random.random() < 0.3:
                helpers.append(Helper(float(start), random.choice([None, 5.0, 60.0]), bool(random.random() < 0.7)))
                calls += [Call(session, len(helpers) - 1, float(t), 2.0, None) for t in np.sort(random.integers(0, 20, 3))]
            else:
                calls.append(Call(session, -1, float(start), float(random.integers(0, 9)), None))
    order, numbers, after, think = link(calls, helpers)
    assert sorted(order) == list(range(len(calls)))
    assert all(a < row and (a < 0 or numbers[a] == numbers[row]) for row, a in enumerate(after))
    assert min(think) >= 0


def test_a_sub_agent_looks_at_few_of_the_main_requests_before_it():
    looked = 0

    class Starts(dict[int, float]):
        def __getitem__(self, row: int) -> float:
            nonlocal looked
            looked += 1
            return super().__getitem__(row)

    calls = [Call(0, -1, float(row), 0.5, None) for row in range(4000)] + [Call(0, 0, 0.0, 1.0, None)]
    session = agent_lines._Session(calls, [Helper(2000.25, 1.0)], starts=Starts())
    for row in range(len(calls)):
        session.add(row)
    looked = 0
    session.start_helpers()
    assert session.follows[4000] == 2000 and looked < 50
