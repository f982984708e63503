from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from evenstep.errors import EngineError
from evenstep.plugins.vllm import register
from evenstep.plugins.vllm.recorder import attach, install
from evenstep.plugins.vllm.settings import Recording
from evenstep.plugins.vllm.step_file import StepFile


class Scheduler:
    """One request more each step, each with so many tokens as its number; every third time nothing to schedule.

    The newest has not computed all of its prompt, and gets no token.
    """

    def __init__(self):
        self.running, self.calls = [], 0

    def schedule(self, throttle=False):
        self.calls += 1
        tokens = self.calls % 3
        if tokens:
            self.running.append(SimpleNamespace(num_computed_tokens=100 * len(self.running) + 100))
        return SimpleNamespace(total_num_scheduled_tokens=tokens)

    def update_from_output(self, output, model_output):
        outputs = [SimpleNamespace(new_token_ids=ids) for ids in model_output]
        return {0: SimpleNamespace(outputs=outputs)}


class Core:
    def __init__(self, clock, lock_step=True):
        self.scheduler, self.clock = Scheduler(), clock
        self.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_size=2, data_parallel_index=1))
        if lock_step:
            self.current_wave, self.step_counter = 4, 0

    def execute_dummy_batch(self):
        self.clock.now_s += 0.5

    def step(self):
        output = self.scheduler.schedule()
        self.clock.now_s += 1.0
        told = self.scheduler.update_from_output(output, [[5]] * (len(self.scheduler.running) - 1) + [[]])
        assert list(told) == [0]
        if not output.total_num_scheduled_tokens:
            self.execute_dummy_batch()
        if hasattr(self, "step_counter"):
            self.step_counter += 1


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def recorded(tmp_path, run, **options):
    clock = Clock()
    core = Core(clock, **options)
    file = StepFile(tmp_path, 0)
    attach(core, file, clock)
    run(core)
    file.close()
    lines = [line.split(",") for line in (tmp_path / "steps-0.csv").read_text().splitlines()[1:]]
    return [(int(w), int(s), float(seconds), int(r), int(kv), int(p)) for _, w, s, _, seconds, r, kv, p in lines]


def test_a_step_has_its_place_its_seconds_its_requests_their_tokens_and_those_it_made(tmp_path):
    def run(core):
        for _ in range(2):
            core.step()

    assert recorded(tmp_path, run) == [(4, 0, 1.0, 1, 100, 0), (4, 1, 1.0, 2, 300, 1)]


def test_a_rank_that_steps_along_empty_records_a_step_without_requests(tmp_path):
    def run(core):
        for _ in range(4):
            core.step()

    assert recorded(tmp_path, run)[2:] == [(4, 2, 0.5, 0, 0, 0), (4, 3, 1.0, 3, 600, 2)]


def test_an_engine_without_a_barrier_counts_its_own_steps(tmp_path):
    def run(core):
        for _ in range(2):
            core.step()

    assert [row[:2] for row in recorded(tmp_path, run, lock_step=False)] == [(0, 0), (0, 1)]


def test_a_step_scheduled_ahead_begins_when_the_one_before_has_ended(tmp_path):
    def run(core):
        first = core.scheduler.schedule()
        second = core.scheduler.schedule()
        core.clock.now_s = 1.0
        core.scheduler.update_from_output(first, "")
        core.clock.now_s = 1.25
        core.scheduler.update_from_output(second, "")

    assert [row[2] for row in recorded(tmp_path, run)] == [1.0, 0.25]


@pytest.fixture
def vllm(monkeypatch):
    """As much of vLLM as the recorder touches."""
    package, core = ModuleType("vllm"), ModuleType("vllm.v1.engine.core")
    package.__version__ = "0.32.0+cpu"

    class EngineCoreProc(Core):
        def run_busy_loop(self):
            self.step()

    class DPEngineCoreProc(EngineCoreProc):
        def run_busy_loop(self):
            self.step()

    core.EngineCoreProc, core.DPEngineCoreProc = EngineCoreProc, DPEngineCoreProc
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.core", core)
    return SimpleNamespace(package=package, core=core)


def test_an_engine_of_a_group_records_under_its_rank_however_often_the_plug_in_is_loaded(vllm, tmp_path):
    for _ in range(2):
        install(Recording(tmp_path))
    vllm.core.DPEngineCoreProc(Clock()).run_busy_loop()
    assert len((tmp_path / "steps-1.csv").read_text().splitlines()) == 2


def test_another_version_of_the_engine_is_refused_and_named(vllm, tmp_path):
    vllm.package.__version__ = "0.33.1"
    with pytest.raises(EngineError, match=r"version is '0.33.1'; expected 0.32.x"):
        install(Recording(tmp_path))
    assert not hasattr(vllm.core.EngineCoreProc.run_busy_loop, "recorded_by_evenstep")


def test_nothing_is_touched_unless_the_environment_asks(vllm, monkeypatch, tmp_path):
    register()
    assert not hasattr(vllm.core.EngineCoreProc.run_busy_loop, "recorded_by_evenstep")
    monkeypatch.setenv("EVENSTEP_STEPS_FOLDER", str(tmp_path))
    register()
    assert hasattr(vllm.core.EngineCoreProc.run_busy_loop, "recorded_by_evenstep")
