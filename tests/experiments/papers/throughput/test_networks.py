"""What is counted in a run of a network."""

import numpy as np
import pytest
from tests.sim.network.networks import call, one_engine

from evenstep.experiments.papers.throughput._networks import (
    at_rates,
    calls_at,
    drift,
    growth,
    keeps_up,
    percent,
    tasks_at,
    work,
)
from evenstep.measure.comparison import Interval

TASK = {"first": call("one"), "second": call("one", after=["first"])}


def test_an_overloaded_engine_serves_its_budget_and_the_rest_is_growth():
    """512 tokens a second of calls of 120 tokens, which come at 1.25 times what it can do."""
    full = 512 / 120
    run = at_rates(one_engine({"only": call("one")}, count=None, until_s=1.0), 4000.0, 0, {"task": 1.25 * full})
    assert run.until_s == 4000.0
    served, drifts = work(run, [120])
    assert served == pytest.approx(512, rel=0.01)
    assert drifts == pytest.approx(1 - 1 / 1.25, rel=0.1)
    assert growth(run, lambda times: tasks_at(run, times)) == pytest.approx(0.25 * full, rel=0.1)
    assert drift(run) == drift(run, 0) > 0.1


def test_an_underloaded_engine_does_not_drift():
    run = at_rates(one_engine(TASK, count=None, until_s=1.0), 4000.0, 0, {"task": 0.5})
    assert abs(drift(run)) < 0.01


def test_calls_and_tasks_are_counted_where_they_are():
    run = at_rates(one_engine(TASK, count=None, until_s=1.0), 100.0, 0, {"task": 0.5})
    times = np.array([25.0, 50.0, 75.0])
    for at, tasks, calls in zip(times, tasks_at(run, times), calls_at(run, times), strict=True):
        ends = np.where(np.isnan(run.tasks.finished_s), np.inf, run.tasks.finished_s)
        assert tasks == ((run.tasks.arrival_s <= at) & (ends > at)).sum()
        assert calls == tasks  # each task has one call under way, and the next begins at once


def test_keeping_up_is_judged_by_the_whole_interval():
    assert keeps_up(Interval(0.001, -0.001, 0.003)) is True
    assert keeps_up(Interval(0.004, 0.002, 0.006)) is None
    assert keeps_up(Interval(0.02, 0.01, 0.03)) is False
    assert percent(Interval(0.02, None, None)) == Interval(2.0, None, None)
