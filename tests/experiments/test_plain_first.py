"""The first runs on a machine without compiled kernels."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest
from tests.experiments.test_jobs import TRACE, plan, shared

from evenstep.errors import PolicyError
from evenstep.experiments import crew, plain_first
from evenstep.experiments.children import Child
from evenstep.experiments.contenders import contenders
from evenstep.experiments.jobs import RunJob, run_all, run_first
from evenstep.experiments.plain_first import PlainFirst, may_begin_plain
from evenstep.routing.policies.jsq import JSQ


class Compiling:
    """Processes that compile until they are told to be done; then ``pipes`` has something to read."""

    def __init__(self, contenders=1):
        self.ours, self.theirs = Pipe()
        self.left, self.loaded = set(range(contenders)), []
        self.pipes = [self.ours]

    def done(self, *contenders):
        self.theirs.send(contenders)

    def note(self, ready):
        if self.ours in ready:
            self.left -= {*self.ours.recv()}

    def is_ready(self, contender):
        return contender not in self.left

    def are_ready(self):
        return not self.left

    def ready(self, contender):
        self.loaded.append(contender)

    def end(self, *, at_once=False):
        self.pipes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Stuck:
    """A plain process that never answers, or that dies."""

    def __init__(self, shared, *, is_plain, dies=False):
        self.pipe, self.theirs = Pipe()
        self.is_ended = self.gives_way = False
        if dies:
            self.theirs.close()

    def give_way(self):
        self.gives_way = True

    def end(self):
        self.is_ended = True


def place(runs, compiling):
    return PlainFirst(runs, lambda job: compiling.ready(job.contender), compiling, lambda job: job.contender)


def begins_with(monkeypatch, compiling):
    monkeypatch.setattr(crew.Kernels, "begin", lambda kernels, places: (compiling, True))


def test_a_run_in_plain_python_has_the_bits_of_a_compiled_one(monkeypatch):
    runs = shared("jsq", "br-0", "random", all_records=True)
    compiled = {(d.job.contender, d.job.index): d.result for d in run_all(runs, 1)}
    compiling = Compiling(3)
    begins_with(monkeypatch, compiling)
    made = list(run_all(runs, 1))
    assert len(made) == 6 and compiling.loaded == []
    for done in made:
        other = compiled[done.job.contender, done.job.index]
        assert done.result.digest == other.digest and repr(done.result.totals) == repr(other.totals)
        for name in ("request_id", "worker", "finished_s"):
            assert getattr(done.result.requests, name).tobytes() == getattr(other.requests, name).tobytes()


def test_runs_whose_kernels_are_there_are_made_here_and_the_others_in_plain_python():
    runs, compiling = shared("jsq", "fcfs"), Compiling(2)
    found = place(runs, compiling)
    compiling.left = {1}
    try:
        ended = []
        for contender in (0, 1):
            found.submit(RunJob(contender, 0, "run"))
            assert found.free == 0
            ended.append(found.wait())
        assert found.is_plain and found.made == 1 and compiling.loaded == [0]
        assert ended[0].seconds > 0.0 and ended[1].seconds == 0.0  # that one tells nothing of compiled runs
        compiling.left = set()
        assert not found.is_plain
    finally:
        found.close()


def test_runs_of_a_workload_that_cannot_be_pickled_are_made_here():
    class Drawn:
        """A user's generator, defined in a function."""

        def draw(self, seed, replicate):
            return TRACE

    runs = shared("jsq", source=Drawn(), seeds=1)
    compiling = Compiling()
    found = place(runs, compiling)
    assert not found.is_plain
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]


def test_a_run_too_long_for_plain_python_is_made_here_as_soon_as_its_kernels_are_there(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    runs, compiling = shared("jsq"), Compiling()
    found = place(runs, compiling)
    child = found._child
    compiling.done(0)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]
    assert child.is_ended and not found.is_plain and found.made == 0


def test_after_some_seconds_plain_runs_take_no_time_from_the_compiler(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    monkeypatch.setattr(plain_first, "EAGER_S", 0.0)
    runs, compiling = shared("jsq"), Compiling()
    found = place(runs, compiling)
    child = found._child
    monkeypatch.setattr(child, "give_way", lambda: compiling.done(0))
    found.submit(RunJob(0, 0, "run"))
    compiling.done()  # news of other kernels
    assert found.wait().result.digest


def test_where_nothing_can_be_kept_a_long_run_is_left_to_this_process(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    monkeypatch.setattr(plain_first, "ALONE_S", 0.01)
    runs, compiling = shared("jsq"), Compiling(0)
    found = place(runs, compiling)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]


def test_a_plain_process_that_dies_is_not_missed(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", lambda shared, is_plain: Stuck(shared, is_plain=is_plain, dies=True))
    runs, compiling = shared("jsq"), Compiling()
    found = place(runs, compiling)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]


def test_what_a_policy_breaks_in_plain_python_ends_the_comparison(tmp_path, monkeypatch):
    bad = tmp_path / "greedy.py"
    bad.write_text(
        "import numpy as np\nfrom evenstep import RoutingDecision\n"
        "class Greedy:\n    def route(self, view):\n"
        "        return RoutingDecision(np.zeros(view.waiting_id.size, np.int64))\n"
        "policy = Greedy\n"
    )
    begins_with(monkeypatch, Compiling())
    with pytest.raises(PolicyError, match="greedy"):
        list(run_all(shared(str(bad)), 1))


def test_a_policy_that_is_an_object_stays_in_this_process():
    assert may_begin_plain([{"name": "jsq"}])
    assert not may_begin_plain([{"name": "jsq"}, JSQ()])


def test_a_child_that_is_left_alone_ends_after_its_job():
    child = Child(shared("jsq"), is_plain=True)
    child.pipe.send(RunJob(0, 0, "run"))
    assert child.pipe.recv().result.digest
    child.leave()
    assert child._process.wait(timeout=30) == 0


def test_one_run_begins_in_plain_python_with_all_its_records(monkeypatch):
    found, compiling = plan(records=True, decisions=True, samples=50, seeds=1), Compiling()
    (asked,) = contenders(["jsq"])
    there = run_first(found, asked, found.replicate(0))
    begins_with(monkeypatch, compiling)
    run = run_first(found, asked, found.replicate(0))
    assert compiling.loaded == [] and run.digest == there.digest and repr(run.totals) == repr(there.totals)
    assert run.decisions.admitted.tobytes() == there.decisions.admitted.tobytes()
    assert run.workers.load.tobytes() == there.workers.load.tobytes()


@pytest.mark.parametrize(("left", "moved"), [({1}, False), (set(), True)])
def test_no_run_that_could_be_made_here_waits_for_the_kernels_of_others(monkeypatch, left, moved):
    compiling, found = Compiling(), []
    compiling.left = left
    monkeypatch.setattr(crew.Kernels, "begin", lambda kernels, places: (compiling, False))
    monkeypatch.setattr(crew.Kernels, "load", lambda kernels, warming, places: found.append("loaded"))
    monkeypatch.setattr(crew.Crew, "_move", lambda one, count: found.append("moved"))
    monkeypatch.setattr(crew, "is_worthwhile", lambda spent, done, left: True)
    monkeypatch.setattr(crew, "cores", lambda: 2)
    assert len(list(run_all(shared("jsq", "fcfs"), None))) == 4
    assert found == (["loaded", "moved"] if moved else [])
