"""The figures of a run of a network, against numbers worked out by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.measure.comparison import mean_interval
from evenstep.measure.network_records import CallTable, Live, NetworkRun, Ordered, TaskTable, live_orders

NAN, NEVER = float("nan"), float("inf")


def engine(makespan_s, busy_s):
    """Of an engine's run only the totals count here."""
    totals = SimpleNamespace(
        requests=3, unfinished=1, iterations=7, evictions=2, makespan_s=makespan_s, busy_s=busy_s, output_tokens=0
    )
    return SimpleNamespace(totals=totals, digest=f"{makespan_s}")


def calls_of(engines, released_s, finished_s):
    rows = np.arange(len(engines))
    return CallTable(rows * 0, rows * 0, np.array(engines), np.array(released_s), np.array(finished_s))


#: Stopped at 10 s, when the second task was about to end. The third one's second call was never sent.
RUN = NetworkRun(
    name="two engines",
    order="fcfs",
    seed=0,
    types=("chat", "agent"),
    kinds=(("chat", "answer"), ("agent", "act")),
    engines={"one": engine(11.0, 8.0), "two": engine(9.0, 4.0)},
    groups={"one": ("one",), "two": ("two",)},
    tasks=TaskTable(
        task_type=np.array([0, 1, 1, 0]),
        arrival_s=np.array([0.0, 1.0, 2.0, 3.0]),
        finished_s=np.array([4.0, 11.0, NAN, 10.0]),
        calls=np.array([1, 1, 2, 1]),
        tokens=np.array([9, 9, 9, 9]),
    ),
    calls=calls_of([0, 0, 1, -1, 1], [1.0, 1.0, 2.0, NEVER, 6.0], [4.0, 11.0, 3.0, NAN, 10.0]),
    times_s=np.zeros(0),
    requests=np.zeros((0, 2), np.int64),
    tokens=np.zeros((0, 2), np.int64),
    left=np.array([3, 4]),
    until_s=10.0,
    counted_s=0.0,
)


def test_what_ended_by_the_stop_counts_and_nothing_else():
    found = RUN.summary
    assert (found["tasks"], found["unfinished_tasks"], found["calls"], found["tasks_per_s"]) == (2, 2, 3, 0.2)
    assert (found["task_mean_s"], found["task_p50_s"]) == (5.5, 5.5)  # 4 s and 7 s
    assert found["task_p99_s"] == pytest.approx(6.97)
    assert found["call_mean_s"] == pytest.approx((3 + 1 + 4) / 3)
    assert (found["makespan_s"], found["tokens_left"], found["verdict"]) == (10.0, 7, None)
    chat, agent = found["types"]["chat"], found["types"]["agent"]
    assert (chat["tasks"], chat["task_mean_s"], agent["tasks"]) == (2, 5.5, 0) and np.isnan(agent["task_mean_s"])


def test_an_engine_is_busy_for_a_share_of_the_time_up_to_the_stop():
    """The batch that ran at the stop ended a second later, which does not count."""
    one, two = RUN.summary["engines"].values()
    assert (one["busy_share"], two["busy_share"]) == (0.7, 0.4)
    assert (one["tokens_left"], two["tokens_left"]) == (3, 4)
    assert replace(RUN, until_s=0.0).summary["engines"]["one"]["busy_share"] == 0.0
    assert replace(RUN, until_s=0.0).summary["tasks_per_s"] == 0.0


def test_tasks_that_all_came_at_once_are_not_judged():
    found = RUN.stability()
    assert found.verdict == "undecided" and np.isnan(found.drift.value) and np.isnan(found.arrivals_per_s)
    assert str(found) == "undecided: all tasks arrive at once; only tasks that arrive over time can be judged"


def test_as_a_table_a_run_has_a_row_a_task_and_no_end_of_a_task_that_the_stop_cut_off():
    found = replace(RUN, seed=7).to_arrow().to_pydict()
    assert found["order"] == ["fcfs"] * 4 and found["seed"] == [7] * 4
    assert found["task_type"] == ["chat", "agent", "agent", "chat"]
    assert found["finished_s"] == [4.0, None, None, 10.0] and found["latency_s"] == [4.0, None, None, 7.0]
    assert sum(found["latency_s"][k] for k in (0, 3)) / 2 == RUN.summary["task_mean_s"]
    assert (found["arrival_s"], found["calls"], found["tokens"]) == ([0.0, 1.0, 2.0, 3.0], [1, 1, 2, 1], [9, 9, 9, 9])


def test_an_engine_that_the_network_lacks_has_no_verdict():
    """`stability(7)` of two engines called the seventh undecided, without a call."""
    late = replace(RUN, counted_s=10.0)
    assert late.stability("two") == late.stability(1) and late.stability("one") != late.stability(1)
    for engine in (7, -1, 0.5):
        with pytest.raises(
            InputError, match=f"engine is {engine}; expected an index from 0 to 1, or a name. Known: one, two"
        ):
            late.stability(engine)
    with pytest.raises(InputError, match="engine is 'to'; expected a name of an engine. Did you mean two"):
        late.stability("to")


def test_an_engine_that_does_half_of_its_calls_is_unstable_and_so_is_its_network():
    """10 calls a second go to each engine. The first one ends each after half a second, the second one the call of r at 2 r."""
    released = np.arange(1, 2001) / 20
    engines = np.arange(2000) % 2
    finished = np.where(engines == 0, released + 0.5, 2 * released)
    late = calls_of([*engines, -1], [*released, NEVER], [*np.where(finished <= 100, finished, NAN), NAN])
    run = replace(RUN, calls=late, counted_s=100.0)
    for which, rate, drift, verdict in ((0, 10.0, 0.0, "stable"), (1, 10.0, 5.0, "unstable"), (None, 20.0, 5.0, "unstable")):
        found = run.stability(which)
        assert found.verdict == verdict
        assert found.arrivals_per_s == pytest.approx(rate, rel=0.005)
        assert found.drift.value == pytest.approx(drift, abs=0.05)
    assert [one["verdict"] for one in run.summary["engines"].values()] == ["stable", "unstable"]
    assert run.summary["verdict"] == "unstable"


def test_a_live_run_stands_beside_its_simulation_and_is_compared_with_the_first_live_order():
    def figures(mean):
        return {"task_mean_s": mean, "task_p95_s": 2 * mean, "call_mean_s": mean / 2}

    def pair(order, simulated, live):
        return SimpleNamespace(order=order, summary=figures(simulated)), Live(order, 0, 9, 0, 0, figures(live))

    found = live_orders([pair("fcfs", 4.0, 8.0), pair("sjf", 3.0, 7.0), pair("fcfs", 6.0, 9.0), pair("sjf", 4.0, 6.0)])
    assert [(one.order, one.way, one.means["task_mean_s"].value) for one in found] == [
        ("fcfs", "simulated", 5.0),
        ("fcfs", "live", 8.5),
        ("sjf", "simulated", 3.5),
        ("sjf", "live", 6.5),
    ]
    assert found[0].versus is None and found[1].versus is None
    assert found[2].versus["task_p95_s"] == mean_interval([-2.0, -4.0])
    assert found[3].versus["task_p95_s"] == mean_interval([-2.0, -6.0])
    ordered = Ordered("fcfs", tuple(SimpleNamespace(summary=figures(mean)) for mean in (4.0, 6.0)), None)
    assert ordered.mean("task_mean_s") == mean_interval([4.0, 6.0])
