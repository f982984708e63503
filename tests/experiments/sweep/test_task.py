"""One run of a sweep."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from tests.experiments.sweeps import tiny

from evenstep.errors import InputError, PolicyError
from evenstep.experiments.compare.compare import compare
from evenstep.experiments.executors import attempt
from evenstep.experiments.settings import CompareSettings
from evenstep.experiments.sources import Reading
from evenstep.experiments.sweep.sweeping import Sweep
from evenstep.experiments.sweep.task import Workloads
from evenstep.sim.cluster.simulation import Cluster


def tasks(**changes):
    return Sweep(tiny(**changes)).tasks()


def test_a_task_makes_the_run_that_compare_makes():
    task = tasks()[1]
    found = task.carry_out(Workloads())
    compared = compare("sample:azure-conv", ["jsq"], cluster=Cluster(workers=2, slots=4), seeds=2, limit=60)
    assert (task.contender.name, task.index) == ("jsq", 1)
    assert found["digest"] == compared.policies[0].digests[1]
    assert found["summary"]["idle_share"] == compared.policies[0].summaries[1]["idle_share"]
    assert (found["seed"], found["replicate"], found["oracle"]) == (1, 1, False)


def test_a_task_means_the_same_after_a_journey():
    task = tasks()[0]
    assert pickle.loads(pickle.dumps(task)).carry_out(Workloads())["digest"] == task.carry_out(Workloads())["digest"]


def test_a_task_that_is_another_one_here_is_refused():
    task = replace(tasks()[0], key="0" * 64)
    with pytest.raises(InputError, match="run is 'another one here'; expected the one that was asked for"):
        task.carry_out(Workloads())


def test_what_a_task_raises_becomes_its_answer(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("class Bad:\n    def route(self, view):\n        return None\npolicy = Bad\n")
    (task, *_) = tasks(policies=[str(bad)])
    ended = attempt(task, Workloads())
    assert isinstance(ended.error, PolicyError) and ended.result is None


def test_points_share_replicates_unless_their_fleet_decides_the_times():
    def prints(**changes):
        workloads = Workloads()
        found = []
        for workers in (2, 4):
            settings = CompareSettings(source="sample:azure-conv", limit=60, workers=workers, **changes)
            plan = workloads.plan(settings)
            found.append(workloads.replicate(plan, settings, 1))
        return workloads, found

    workloads, (one, two) = prints()
    assert one[0] is two[0]
    _, (one, two) = prints(load=0.5, arrivals="timed")
    assert one[1] != two[1]
    assert list(workloads.sources) == [Reading("sample:azure-conv", 60)]
