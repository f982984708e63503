"""Where runs are made."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe

import pytest
from tests.experiments.sweeps import tiny

from evenstep.errors import InputError, PolicyError, check_range
from evenstep.experiments import executors
from evenstep.experiments.executors import Here, Processes, attempt, can_fork, serve_spawned
from evenstep.experiments.sweep.sweeping import Sweep
from evenstep.experiments.sweep.task import Workloads
from evenstep.wording import counted

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
    assert place.wait().job is first
    assert place.free == 1
    place.submit(second)
    assert place.wait().result["digest"]
    assert told == [first, second]


def test_processes_that_die_at_once_are_not_started_for_ever(monkeypatch):
    started = []

    class Dead:
        """A process that died before it was sent anything, as one of a script without a ``__main__`` guard does."""

        def __init__(self, *given):
            assert not started, "another was started"
            started.append(self)
            self.pipe, theirs = Pipe()
            theirs.close()

        def how_it_died(self):
            return "ended with code 1"

    monkeypatch.setattr(executors, "can_fork", lambda: False)
    monkeypatch.setattr(executors, "_Worker", Dead)
    place = Processes(1, b"shared")
    place.submit("job")
    assert place.wait() == executors.Ended("job", lost="ended with code 1")


def test_an_object_that_another_process_cannot_load_is_one_error(monkeypatch):
    """As a policy of a notebook, whose kernel has threads. The process died twice, and the user was told of memory."""
    said = "^processes: object is .*; expected one that another process can load. Define its class in a file"
    ours, theirs = Pipe()
    ours.send_bytes(pickle.dumps(can_fork).replace(b"can_fork", b"not_here"))
    ours.send("job")
    serve_spawned(theirs)
    assert re.match(said, str(ours.recv().error))
    monkeypatch.setattr(executors, "can_fork", lambda: False)
    with pytest.raises(InputError, match=said):
        Processes(2, lambda: None)


class FailsToPickle:
    def __reduce__(self) -> tuple[object, ...]:
        return (counted, (counted(self, "object"),))  # type: ignore[arg-type]  # no number, so that it fails


@dataclass(frozen=True)
class MadeBy:
    """Unpickled, it is what `make` returns."""

    make: Callable[[], object]

    def __reduce__(self) -> tuple[object, ...]:
        return self.make, ()


def test_an_error_of_ours_on_the_way_to_another_process_is_not_said_of_the_object(monkeypatch):
    """It was said of the user's object, or the other process died and the user was told of memory."""
    monkeypatch.setattr(executors, "can_fork", lambda: False)
    with pytest.raises(TypeError, match="unsupported format string"):
        Processes(2, FailsToPickle())
    bug, refusal = partial(counted, "x", "row"), partial(check_range, "a", "a number >= 2", low=2, b=1)  # type: ignore[arg-type]
    for make, said in ((bug, "ValueError: Cannot specify ',' with 's'."), (refusal, "a: b is 1; expected a number >= 2.")):
        ours, theirs = Pipe()
        ours.send_bytes(pickle.dumps(MadeBy(make)))
        ours.send("job")
        serve_spawned(theirs)
        assert str(ours.recv().error) == said


@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_processes_find_what_is_found_here_and_outlive_one_that_is_killed(tmp_path, monkeypatch, forks):
    monkeypatch.setattr(executors, "can_fork", lambda: forks)
    deadly = tmp_path / "deadly.py"
    deadly.write_text(DEADLY)
    tasks = Sweep(tiny(policies=["jsq", str(deadly)])).tasks()
    place = Processes(2, Workloads())
    try:
        good = [task for task in tasks if task.contender.name == "jsq"]
        bad = next(task for task in tasks if task.contender.name != "jsq")
        place.submit(good[0])
        place.submit(bad)
        assert place.free == 0
        ended = {one.job.key: one for one in (place.wait(), place.wait())}
        assert ended[bad.key].lost == "killed by SIGKILL"
        assert place.free == 2
        place.submit(good[1])
        ended[good[1].key] = place.wait()
        for task in good[:2]:
            assert ended[task.key].result["digest"] == task.carry_out(Workloads())["digest"]
    finally:
        place.close()
    assert place.free == 2


def test_here_what_a_policy_breaks_is_part_of_the_answer(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("class Bad:\n    def route(self, view):\n        return None\npolicy = Bad\n")
    place = Here(Workloads())
    place.submit(Sweep(tiny(policies=[str(bad)])).tasks()[0])
    assert isinstance(place.wait().error, PolicyError)


@pytest.mark.parametrize(
    ("forks", "spent", "done", "left", "pays"),
    [
        (True, 0.0, 0, 9, False),
        (True, 0.1, 1, 2, False),
        (True, 0.1, 1, 4, True),
        (False, 2.0, 1, 9, False),
        (False, 4.0, 1, 9, True),
        (False, 4.0, 8, 2, False),
    ],
)
def test_processes_pay_where_what_is_left_takes_longer_than_their_start(monkeypatch, forks, spent, done, left, pays):
    monkeypatch.setattr(executors, "can_fork", lambda: forks)
    assert executors.is_worthwhile(spent, done, left) is pays


def test_an_error_of_a_job_keeps_its_traceback_as_it_is_pickled():
    class Job:
        def carry_out(self, shared):
            raise KeyError("boom")

    error = pickle.loads(pickle.dumps(attempt(Job(), None).error))
    assert str(error) == "KeyError: 'boom'"
    assert f'File "{__file__}", line' in error.__notes__[0]
