"""Expected paths of a task, against hand-worked numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.sim.network.networks import call, example, one_engine

from evenstep.sim.network.paths import ancestors, before, mean_tokens, remaining, static_keys, visits
from evenstep.sim.network.simulation import simulate_network
from evenstep.sim.network.tasks import draw
from evenstep.workload.synthetic.arrivals import Poisson

FORK = {
    "plan": call("one", 90, 10),
    "short": call("one", 40, 10, after=["plan"]),
    "long": call("one", 250, 50, after=["plan"]),
    "join": call("one", 15, 5, after=["short", "long"]),
}


def fork(order: str):
    return one_engine(FORK, count=3, order=order)


def test_the_longest_path_goes_through_the_longer_branch():
    task = fork("fcfs").tasks["task"]
    assert remaining(task) == {"plan": 420.0, "short": 70.0, "long": 320.0, "join": 20.0}
    assert before(task) == {"plan": 0.0, "short": 100.0, "long": 100.0, "join": 400.0}
    assert ancestors(task)["join"] == {"plan", "short", "long"}


def test_what_comes_before_a_call_is_on_every_way_to_it_since_it_last_ran():
    calls = {
        "plan": call("one", then={"look": 0.1, "act": 0.9}),
        "look": call("one", then={"act": 1.0}),
        "act": call("one", then={"act": 0.2, "tool": 0.3, "sum": 0.5}),
        "tool": call("one", then={"act": 1.0}),
        "sum": call("one", then={"sum": 0.5, "end": 0.5}),
    }
    found = ancestors(one_engine(calls).tasks["task"])
    assert found == {
        "plan": frozenset(),
        "look": {"plan"},
        "act": frozenset(),  # by the tool without another plan
        "tool": {"act"},
        "sum": {"plan", "act"},
    }


def test_keys_of_the_orders():
    drawn = draw(fork("fcfs"))
    slack = static_keys(fork("critical-path"), drawn)
    left = static_keys(fork("longest-path"), drawn)
    by_kind = [int(np.flatnonzero(drawn.kind == k)[0]) for k in range(4)]
    assert slack[by_kind].tolist() == [0.0, 250.0, 0.0, 0.0]
    assert left[by_kind].tolist() == [-420.0, -70.0, -320.0, -20.0]


def test_a_loop_counts_as_often_as_it_is_expected():
    calls = {"plan": call("one", 90, 10, then={"act": 1.0}), "act": call("one", 40, 10, then={"act": 0.75, "end": 0.25})}
    task = one_engine(calls).tasks["task"]
    assert visits(task) == pytest.approx({"plan": 1.0, "act": 4.0})
    assert remaining(task) == pytest.approx({"plan": 300.0, "act": 200.0})


def test_means_of_laws():
    task = example("rybko-stolyar").tasks["A"]
    assert mean_tokens(task)["long"] == pytest.approx((512.0, 32.0), rel=0.002)


def test_orders_change_who_waits_and_least_attained_helps_short_tasks():
    network = example("agent-loop")
    rates = {"agent": 4.4, "question": 13.2}
    tasks = {
        name: replace(one, count=int(200 * rates[name]), arrivals=Poisson(rates[name]))
        for name, one in network.tasks.items()
    }
    found, digests = {}, set()
    for order in ("fcfs", "least-attained", "critical-path", "longest-path", "oldest-task"):
        run = simulate_network(replace(network, tasks=tasks, until_s=None, order=order))
        span = run.tasks.finished_s - run.tasks.arrival_s
        found[order] = [float(span[run.tasks.task_type == k].mean()) for k in range(2)]
        digests.add(run.digest)
    assert found["least-attained"][1] < 0.9 * found["fcfs"][1]
    assert len(digests) == 5


def test_calls_without_slack_are_alike():
    """Rounding of sums left a slack of 1e-12 to some calls of the longest path, which then waited behind all others."""
    calls = {
        "plan": call("one", 33, 7, then={"look": 1.0}),
        "look": call("one", 61, 3, then={"act": 1.0}),
        "act": call("one", 40, 9, then={"act": 0.1, "end": 0.9}),
    }
    network = one_engine(calls, count=9, order="critical-path")
    assert set(static_keys(network, draw(network)).tolist()) == {0.0}


def test_a_long_loop_counts_every_visit():
    """Rounds of iteration stopped at 865 of 1,000 visits."""
    calls = {"act": call("one", 40, 10, then={"act": 0.999, "join": 0.001}), "join": call("one", 90, 10)}
    task = one_engine(calls).tasks["task"]
    assert visits(task) == pytest.approx({"act": 1000.0, "join": 1.0})
    assert remaining(task) == pytest.approx({"act": 50_100.0, "join": 100.0})


def test_the_longest_of_two_ways_is_a_loop_where_it_brings_more():
    calls = {
        "plan": call("one", 90, 10, then={"act": 1.0}),
        "act": call("one", 40, 10, then={"act": 0.75, "end": 0.25}),
        "other": call("one", 60, 10, after=["plan"]),
        "last": call("one", 50, 90, after=["other"]),
    }
    assert remaining(one_engine(calls).tasks["task"])["plan"] == pytest.approx(310.0)
    calls["act"] = call("one", 40, 10, then={"act": 0.8, "end": 0.2})
    assert remaining(one_engine(calls).tasks["task"])["plan"] == pytest.approx(350.0)


def test_the_path_to_a_call_does_not_depend_on_the_order_of_the_file():
    """A way back counted, and a way there did not, where a call stood above the one that leads to it."""
    calls = {
        "plan": call("one", 90, 10, then={"act": 0.5, "look": 0.5}),
        "look": call("one", 25, 5, then={"act": 1.0}),
        "act": call("one", 40, 10, then={"act": 0.25, "plan": 0.25, "sum": 0.5}),
        "sum": call("one", 10, 10),
        "check": call("one", 5, 5, after=["sum"]),
    }
    for listed in (calls, {"plan": calls["plan"], **dict(reversed(calls.items()))}):
        task = one_engine(listed).tasks["task"]
        assert before(task) == {"plan": 0.0, "look": 100.0, "act": 130.0, "sum": 180.0, "check": 200.0}
