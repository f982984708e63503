"""Where runs are made."""

from __future__ import annotations

from tests.experiments.sweeps import tiny

from evenstep.errors import PolicyError
from evenstep.experiments.sweep.sweeping import Sweep
from evenstep.experiments.sweep.task import Workloads, carry_out
from evenstep.experiments.sweep_workers import Here, Processes

DEADLY = """
import os, signal
class Deadly:
    def route(self, view):
        os.kill(os.getpid(), signal.SIGKILL)
policy = Deadly
"""


def test_here_one_task_follows_the_other():
    first, second, *_ = Sweep(tiny()).tasks()
    told = []
    place = Here(Workloads(), told.append)
    place.submit(first)
    assert place.free == 0
    assert place.wait().task is first
    assert place.free == 1
    place.submit(second)
    assert place.wait().result["digest"]
    assert told == [first, second]


def test_processes_find_what_is_found_here_and_outlive_one_that_is_killed(tmp_path):
    deadly = tmp_path / "deadly.py"
    deadly.write_text(DEADLY)
    tasks = Sweep(tiny(policies=["jsq", str(deadly)])).tasks()
    place = Processes(2, {})
    try:
        good = [task for task in tasks if task.contender.name == "jsq"]
        bad = next(task for task in tasks if task.contender.name != "jsq")
        place.submit(good[0])
        place.submit(bad)
        assert place.free == 0
        ended = {one.task.key: one for one in (place.wait(), place.wait())}
        assert ended[bad.key].lost == "killed by SIGKILL"
        assert place.free == 2
        place.submit(good[1])
        ended[good[1].key] = place.wait()
        for task in good[:2]:
            assert ended[task.key].result["digest"] == carry_out(task, Workloads())["digest"]
    finally:
        place.close()
    assert place.free == 2


def test_here_what_a_policy_breaks_is_part_of_the_answer(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("class Bad:\n    def route(self, view):\n        return None\npolicy = Bad\n")
    place = Here(Workloads())
    place.submit(Sweep(tiny(policies=[str(bad)])).tasks()[0])
    assert isinstance(place.wait().error, PolicyError)
