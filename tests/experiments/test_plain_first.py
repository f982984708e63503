"""The first runs on a machine without compiled kernels."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest
from tests.experiments.test_jobs import plan

from evenstep.errors import PolicyError
from evenstep.experiments import jobs, plain_first
from evenstep.experiments.children import Child
from evenstep.experiments.contenders import contenders
from evenstep.experiments.executors import Here
from evenstep.experiments.jobs import RunJob, Shared, replicates, run_all, run_first
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


def shared_of(*policies, **changes):
    found = plan(**changes)
    return Shared(found, contenders(policies), replicates(found))


def place(shared, compiling):
    return PlainFirst(Here(shared, lambda job: compiling.ready(job.contender)), shared, compiling)


def test_a_run_in_plain_python_has_the_bits_of_a_compiled_one():
    asked, found = contenders(["jsq", "br-0", "random"]), plan(all_records=True)
    traces = replicates(found)
    compiled = {(d.contender, d.index): d.run for d in run_all(found, asked, traces, 1)}
    compiling = Compiling(3)
    made = list(run_all(found, asked, traces, 1, compiling, begins_plain=True))
    assert len(made) == 6 and compiling.loaded == []
    for done in made:
        other = compiled[done.contender, done.index]
        assert done.run.digest == other.digest and repr(done.run.totals) == repr(other.totals)
        for name in ("request_id", "worker", "finished_s"):
            assert getattr(done.run.requests, name).tobytes() == getattr(other.requests, name).tobytes()


def test_runs_whose_kernels_are_there_are_made_here_and_the_others_in_plain_python():
    shared, compiling = shared_of("jsq", "fcfs"), Compiling(2)
    found = place(shared, compiling)
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


def test_a_run_too_long_for_plain_python_is_made_here_as_soon_as_its_kernels_are_there(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    shared, compiling = shared_of("jsq"), Compiling()
    found = place(shared, compiling)
    child = found._child
    compiling.done(0)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]
    assert child.is_ended and not found.is_plain and found.made == 0


def test_after_some_seconds_plain_runs_take_no_time_from_the_compiler(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    monkeypatch.setattr(plain_first, "EAGER_S", 0.0)
    shared, compiling = shared_of("jsq"), Compiling()
    found = place(shared, compiling)
    child = found._child
    monkeypatch.setattr(child, "give_way", lambda: compiling.done(0))
    found.submit(RunJob(0, 0, "run"))
    compiling.done()  # news of other kernels
    assert found.wait().result.digest


def test_where_nothing_can_be_kept_a_long_run_is_left_to_this_process(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", Stuck)
    monkeypatch.setattr(plain_first, "ALONE_S", 0.01)
    shared, compiling = shared_of("jsq"), Compiling(0)
    found = place(shared, compiling)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]


def test_a_plain_process_that_dies_is_not_missed(monkeypatch):
    monkeypatch.setattr(plain_first, "Child", lambda shared, is_plain: Stuck(shared, is_plain=is_plain, dies=True))
    shared, compiling = shared_of("jsq"), Compiling()
    found = place(shared, compiling)
    found.submit(RunJob(0, 0, "run"))
    assert found.wait().result.digest and compiling.loaded == [0]


def test_what_a_policy_breaks_in_plain_python_ends_the_comparison(tmp_path):
    bad = tmp_path / "greedy.py"
    bad.write_text(
        "import numpy as np\nfrom evenstep import RoutingDecision\n"
        "class Greedy:\n    def route(self, view):\n"
        "        return RoutingDecision(np.zeros(view.waiting_id.size, np.int64))\n"
        "policy = Greedy\n"
    )
    found = plan()
    with pytest.raises(PolicyError, match="greedy"):
        list(run_all(found, contenders([str(bad)]), replicates(found), 1, Compiling(), begins_plain=True))


def test_a_policy_that_is_an_object_stays_in_this_process():
    assert may_begin_plain([{"name": "jsq"}])
    assert not may_begin_plain([{"name": "jsq"}, JSQ()])


def test_a_child_that_is_left_alone_ends_after_its_job():
    shared = shared_of("jsq")
    child = Child(shared, is_plain=True)
    child.pipe.send(RunJob(0, 0, "run"))
    assert child.pipe.recv().result.digest
    child.leave()
    assert child._process.wait(timeout=30) == 0


def test_one_run_begins_in_plain_python_with_all_its_records(monkeypatch):
    found, compiling = plan(records=True, decisions=True, samples=50, seeds=1), Compiling()
    (asked,) = contenders(["jsq"])
    there = run_first(found, asked, found.replicate(0))
    monkeypatch.setattr(jobs, "begin", lambda cold, beside, policies: (compiling, True))
    run = run_first(found, asked, found.replicate(0))
    assert compiling.loaded == [] and run.digest == there.digest and repr(run.totals) == repr(there.totals)
    assert run.decisions.admitted.tobytes() == there.decisions.admitted.tobytes()
    assert run.workers.load.tobytes() == there.workers.load.tobytes()
