"""Making the runs of a sweep."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.experiments.sweeps import Heard, tiny
from tests.experiments.test_plain_first import Compiling

from evenstep.errors import InputError, PolicyError
from evenstep.experiments import crew
from evenstep.experiments.sweep.sweeping import Sweep, sweep
from evenstep.measure.swept import write_swept

#: A policy that kills its process unless a file is there; with `once` it makes the file first.
DEADLY = """
import os, signal
from pathlib import Path
from evenstep.routing.policies.jsq import JSQ
class Deadly:
    def route(self, view):
        mark = Path({mark!r})
        if not mark.exists():
            {once}
            os.kill(os.getpid(), signal.SIGKILL)
        return JSQ().route(view)
policy = Deadly
"""


def deadly(tmp_path: Path, once: bool) -> str:
    path = tmp_path / "deadly.py"
    path.write_text(DEADLY.format(mark=str(tmp_path / "mark"), once="mark.touch()" if once else "pass"))
    return str(path)


def test_processes_give_the_same_bytes_also_when_one_is_killed_and_its_run_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "may_begin_plain", lambda asked: False)  # a run lost in plain Python is made here, unsaid
    heard = Heard()
    asked = tiny(over={"workers": [2]}, policies=["br-0", deadly(tmp_path, once=True)])
    write_swept(sweep(asked, processes=2, progress=heard), tmp_path / "there")
    assert any("its process was killed by SIGKILL; tried again" in line for line in heard.lines)
    write_swept(sweep(asked), tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_run_that_kills_its_process_twice_is_named_and_finished_runs_are_kept(tmp_path, monkeypatch):
    class Dying(crew.Here):
        def __init__(self, count, shared):
            super().__init__(shared)

        def wait(self):
            if self._job.contender.name != "br-0":
                return super().wait()
            job, self._job = self._job, None
            return crew.Ended(job, lost="killed by SIGKILL")

    monkeypatch.setattr(crew, "Processes", Dying)
    label = "point 0 (workers=2), br-0, replicate 0"
    heard = Heard()
    with pytest.raises(
        InputError, match=re.escape(f"{label}: process is 'killed by SIGKILL'; expected a process that finishes the run")
    ):
        sweep(tiny(), cache=tmp_path, processes=2, progress=heard)
    assert heard.lines == [f"{label}: its process was killed by SIGKILL; tried again"]
    assert len(Sweep(tiny(), cache=tmp_path).tasks()) == 8 - 2


def test_a_policy_that_breaks_its_contract_is_named_with_its_point(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("class Bad:\n    def route(self, view):\n        return None\npolicy = Bad\n")
    with pytest.raises(PolicyError, match=r"point 0 \(workers=2\), .*bad.py, replicate 0: "):
        sweep(tiny(policies=[str(bad)]))


def test_long_sweeps_move_to_processes_on_their_own(monkeypatch):
    started = []

    class Recorded(crew.Here):
        def __init__(self, count, shared):
            started.append(count)
            super().__init__(shared)

    monkeypatch.setattr(crew, "is_worthwhile", lambda spent, done, left: True)
    monkeypatch.setattr(crew, "cores", lambda: 3)
    monkeypatch.setattr(crew, "Processes", Recorded)
    sweep(tiny(), processes=None)
    assert started == [3]


def test_short_sweeps_stay_here(monkeypatch):
    monkeypatch.setattr(crew, "is_worthwhile", lambda spent, done, left: False)
    monkeypatch.setattr(crew, "Processes", lambda *_: pytest.fail("started processes"))
    sweep(tiny(), processes=None)


def test_a_full_disk_is_one_clear_error(monkeypatch, tmp_path):
    def full(**_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(InputError, match=r"json: file is .* expected a file that can be written. No space left"):
        sweep(tiny(), cache=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_runs_on_a_machine_are_made_in_plain_python_with_the_same_bytes(monkeypatch, tmp_path, processes):
    asked, compiling = tiny(over={"workers": [2]}), Compiling(2)
    monkeypatch.setattr(crew.Kernels, "begin", lambda kernels, places: (compiling, True))
    monkeypatch.setattr(crew, "Processes", lambda *_: pytest.fail("started processes that compile"))
    write_swept(sweep(asked, processes=processes), tmp_path / "plain")
    assert compiling.loaded == []
    monkeypatch.undo()
    write_swept(sweep(asked), tmp_path / "compiled")
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "compiled").read_bytes()


def test_runs_that_are_timed_are_compiled(monkeypatch):
    begun, whole = [], crew.Kernels.begin
    monkeypatch.setattr(crew.Kernels, "begin", lambda one, places: begun.append(one.may_begin_plain) or whole(one, places))
    assert Sweep(tiny()).forecast(1).runs == 8
    assert begun == [False]
