"""Tasks, drawn from their graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.sim.network.networks import call, one_engine

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.network.description import TaskSection
from evenstep.sim.network.simulation import simulate_network
from evenstep.sim.network.tasks import draw
from evenstep.workload.synthetic.arrivals import LikeTrace, Poisson, Saturated
from evenstep.workload.synthetic.yaml_file import TraceFile


def test_a_loop_is_run_as_often_as_its_probability_says():
    calls = {"plan": call("one", then={"act": 1.0}), "act": call("one", then={"act": 0.75, "end": 0.25})}
    drawn = draw(one_engine(calls, count=20_000))
    acts = np.bincount(drawn.task[drawn.kind == 1], minlength=20_000)
    assert acts.min() == 1 and acts.mean() == pytest.approx(4.0, rel=0.03)
    assert acts.var() == pytest.approx(12.0, rel=0.1)  # geometric
    assert (drawn.task[drawn.parent] == drawn.task[drawn.child]).all() and (drawn.parent < drawn.child).all()


def test_a_branch_takes_one_way_and_a_join_waits_for_all():
    calls = {
        "plan": call("one"),
        "a": call("one", after=["plan"]),
        "b": call("one", after=["plan"]),
        "join": call("one", after=["a", "b"], then={"short": 0.3, "long": 0.6, "end": 0.1}),
        "short": call("one"),
        "long": call("one"),
    }
    drawn = draw(one_engine(calls, count=5_000))
    counts = np.bincount(drawn.kind, minlength=6) / 5_000
    assert counts[:4].tolist() == [1, 1, 1, 1]
    assert counts[4:] == pytest.approx([0.3, 0.6], abs=0.03)
    parents = np.bincount(drawn.child, minlength=drawn.task.size)
    assert (parents[drawn.kind == 3] == 2).all() and (parents[drawn.kind == 0] == 0).all()


def test_a_join_inside_a_loop_joins_calls_of_the_same_round():
    calls = {
        "plan": call("one"),
        "a": call("one", after=["plan"]),
        "join": call("one", after=["plan", "a"], then={"again": 0.5, "end": 0.5}),
        "again": call("one", then={"plan": 1.0}),
    }
    drawn = draw(one_engine(calls, count=500))
    counts = [np.bincount(drawn.task[drawn.kind == k], minlength=500) for k in range(4)]
    assert np.array_equal(counts[0], counts[1]) and np.array_equal(counts[0], counts[2])
    assert np.array_equal(counts[3], counts[0] - 1) and counts[0].max() > 3


def test_a_loop_that_runs_ahead_of_a_join_is_joined_round_by_round():
    """`join` of a round waits for two calls, and by then the loop is in its next rounds."""
    calls = {
        "loop": call("one", then={"loop": 0.5, "end": 0.5}),
        "a": call("one", after=["loop"]),
        "join": call("one", after=["a", "loop"]),
    }
    drawn = draw(one_engine(calls, count=500))
    loops = np.bincount(drawn.task[drawn.kind == 0], minlength=500)
    assert loops.max() > 3 and np.array_equal(np.bincount(drawn.task[drawn.kind == 2], minlength=500), loops)
    for join in np.flatnonzero(drawn.kind == 2).tolist():
        one, loop = sorted(drawn.parent[drawn.child == join].tolist(), key=lambda row: -int(drawn.kind[row]))
        assert drawn.parent[drawn.child == one].tolist() == [loop]


def test_a_recorded_session_is_a_task_and_think_times_are_delays():
    trace = Trace(
        np.array([10, 20, 30, 40]),
        np.array([1, 2, 3, 4]),
        np.array([0.0, 1.0, 5.0, 6.0]),
        session=np.array([0, -1, 0, 0]),
        after=np.array([-1, -1, 0, 2]),
        think_s=np.array([0.0, 0.0, 0.5, 0.25]),
    )
    network = replace(one_engine({"call": call("one")}), tasks={"log": TaskSection(trace=TraceFile("x"), engine="one")})
    drawn = draw(network, {"log": trace})
    assert drawn.task.tolist() == [0, 0, 0, 1] and drawn.prompt.tolist() == [10, 30, 40, 20]
    assert drawn.delay_s.tolist() == [0.0, 0.5, 0.25, 0.0] and drawn.arrival_s.tolist() == [0.0, 1.0]
    assert list(zip(drawn.parent.tolist(), drawn.child.tolist(), strict=True)) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("column", "value"),
    [("request_class", -(10**8)), ("request_class", 10**12), ("prompt_tokens", 0), ("output_tokens", -3)],
)
def test_a_recorded_value_that_the_loop_cannot_use_is_named(column, value):
    log = replace(
        Trace(np.full(3, 10), np.full(3, 2), request_class=np.zeros(3, np.int64)), **{column: np.array([1, value, 1])}
    )
    task = TaskSection(trace=TraceFile("x"), engine="one", arrivals=Poisson(1.0))
    network = replace(one_engine({"call": call("one")}), tasks={"log": task})
    with pytest.raises(InputError, match=f"{column} of request 1 is {value}"):
        draw(network, {"log": log})


def test_drawn_arrivals_of_recorded_tasks_differ_by_seed():
    """All replicates had the same arrivals, and intervals of no width."""
    trace, task = (
        Trace(np.full(5, 10), np.full(5, 1)),
        TaskSection(trace=TraceFile("x"), engine="one", arrivals=Poisson(1.0)),
    )
    network = replace(one_engine({"call": call("one")}), tasks={"log": task})
    first, again, other = (draw(network, {"log": trace}, seed).arrival_s.tolist() for seed in (0, 0, 1))
    assert first == again != other
    with pytest.raises(InputError, match=r"tasks\.log\.arrivals is 'saturated'; expected a process with times"):
        draw(replace(network, tasks={"log": replace(task, arrivals=Saturated())}), {"log": trace})


def test_the_time_says_how_many_tasks_there_are():
    network = one_engine({"call": call("one")}, rate=50.0)
    timed = replace(network, tasks={"task": replace(network.tasks["task"], count=None)}, until_s=100.0)
    drawn = draw(timed)
    assert drawn.arrival_s.size == pytest.approx(5000, rel=0.05) and drawn.arrival_s[-1] < 100.0


def test_types_draw_their_arrivals_independently():
    network = one_engine({"call": call("one")})
    tasks = {name: TaskSection(calls={"call": call("one")}, arrivals=Poisson(1.0), count=50) for name in ("a", "b")}
    drawn = draw(replace(network, tasks=tasks))
    gaps = [np.diff(drawn.arrival_s[drawn.task_type == k]) for k in range(2)]
    assert not np.allclose(gaps[0], gaps[1])


@pytest.mark.parametrize("recorded", [False, True])
def test_the_gaps_of_one_trace_give_types_and_seeds_different_times(recorded):
    """All types, and the replicates of each, arrived at the same instants."""
    gaps = LikeTrace(np.arange(1.0, 1000.0))
    task = TaskSection(calls={"call": call("one")}, arrivals=gaps, count=50)
    traces = {name: Trace(np.full(50, 9), np.full(50, 9)) for name in "ab"} if recorded else {}
    if recorded:
        task = TaskSection(trace=TraceFile("x"), engine="one", arrivals=gaps)
    network = replace(one_engine({"call": call("one")}), tasks={"a": task, "b": task})
    times = [draw(network, traces, seed) for seed in range(2)]
    seen = [tuple(one.arrival_s[one.task_type == k]) for one in times for k in range(2)]
    assert len(set(seen)) == 4
    assert all(np.allclose(np.diff(one, 2), 1.0) for one in seen)  # the gaps themselves, in their order


@pytest.mark.parametrize("count", [None, 3])
def test_recorded_tasks_that_arrive_at_the_stop_or_later_are_left_out(count):
    """They counted as unfinished, although they had not arrived."""
    trace = Trace(np.arange(1, 6), np.full(5, 1), np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    task = TaskSection(trace=TraceFile("x"), engine="one", count=count)
    network = replace(one_engine({"call": call("one")}), tasks={"log": task}, until_s=2.0)
    drawn = draw(network, {"log": trace})
    assert drawn.arrival_s.tolist() == [0.0, 1.0] and drawn.prompt.tolist() == [1, 2]
    assert simulate_network(network, traces={"log": trace}).summary["unfinished_tasks"] == 1
    rare = replace(network, tasks={"log": replace(task, arrivals=LikeTrace(np.array([9.0])))})
    assert draw(rare, {"log": trace}).arrival_s.tolist() == [0.0]
