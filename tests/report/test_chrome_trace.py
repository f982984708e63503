from __future__ import annotations

import dataclasses
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.measure.small_cluster import small_run

from evenstep.cost.linear import Linear
from evenstep.cost.unequal import Unequal
from evenstep.errors import InputError
from evenstep.report.chrome_trace import write_chrome_trace
from evenstep.request import Trace
from evenstep.routing.policies.fcfs import FCFS
from evenstep.sim.cluster.simulation import Cluster, simulate

LAW = Linear(overhead_s=1.0, per_token_s=1.0)


def written(tmp_path, run, **options):
    path = tmp_path / "run.trace.json"
    steps = write_chrome_trace(path, run.workers, LAW, run.conditions, **options)
    return steps, json.loads(path.read_text())["traceEvents"]


def test_work_and_waiting_fill_every_step_of_every_worker(tmp_path):
    run = small_run([1, 3, 2, 9], [2, 1, 1, 4], workers=2, slots=1)
    steps, events = written(tmp_path, run)
    assert steps == run.steps.rows
    for worker in (1, 2):
        slices = [e for e in events if e["ph"] == "X" and e["tid"] == worker]
        assert sum(e["dur"] for e in slices) == pytest.approx(run.totals.makespan_s * 1e6)
        for a, b in pairwise(slices):
            assert a["ts"] + a["dur"] == pytest.approx(b["ts"])


def test_the_first_step_by_hand(tmp_path):
    run = small_run([1, 3], [2, 1], workers=2, slots=1)
    _, events = written(tmp_path, run, limit=1)
    slices = [(e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [(1, "decode", 0.0, 2e6), (1, "barrier wait", 2e6, 2e6), (2, "decode", 0.0, 4e6)]
    counters = {e["name"]: e["args"][e["name"]] for e in events if e["ph"] == "C"}
    assert counters == {"envelope": 3.0, "imbalance": 2.0, "load imbalance": pytest.approx(1 / 3)}
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == ["worker 0", "worker 1"]


def test_a_worker_alone_never_waits(tmp_path):
    """Half of its steps ended in a wait of 1e-10 microseconds, which was rounding."""
    trace, law = Trace(np.arange(20, 60), np.arange(1, 41)), Linear()
    run = simulate(trace, FCFS(), cluster=Cluster(workers=1, slots=2), step_time=law, workers=10_000)
    write_chrome_trace(tmp_path / "one.json", run.workers, law, run.conditions)
    events = json.loads((tmp_path / "one.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"decode"}


def test_a_law_of_the_longest_is_drawn_from_its_samples(tmp_path):
    law = Unequal(share=0.5, overhead_s=1.0, per_token_s=1.0)
    trace = Trace(np.array([9, 1, 5]), np.array([1, 1, 1]))
    run = simulate(trace, FCFS(), cluster=Cluster(1, 3, pool=3), step_time=law, workers=4)
    path = tmp_path / "t.json"
    write_chrome_trace(path, run.workers, law, run.conditions)
    slices = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["dur"]) for e in slices] == [("decode", 22e6)]  # 1 + 15 + 0.5 * (27 - 15)
    with pytest.raises(InputError, match="chrome trace: longest is 'missing'"):
        write_chrome_trace(path, dataclasses.replace(run.workers, longest=None), law, run.conditions)


def test_a_part_of_a_run_can_be_asked_for(tmp_path):
    run = small_run([3, 5], [4, 1])
    steps, events = written(tmp_path, run, first=2, limit=1)
    assert steps == 1
    assert [e["args"]["step"] for e in events if e["ph"] == "X"] == [2]


def test_only_the_first_group_is_drawn(tmp_path):
    run = small_run([1, 3, 2], [2, 1, 1], workers=3, slots=1)
    two = dataclasses.replace(run.conditions, group_sizes=(2, 1), overhead_s=(1.0, 1.0))
    write_chrome_trace(tmp_path / "t.json", run.workers, LAW, two)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["tid"] for e in events if e["ph"] == "X"} == {1, 2}


@pytest.mark.parametrize("options", [{"first": 4}, {"first": -1}, {"limit": 0}])
def test_a_range_outside_the_run_is_refused(tmp_path, options):
    with pytest.raises(InputError, match=f"chrome trace: {next(iter(options))} is"):
        written(tmp_path, small_run([3, 5], [4, 1]), **options)


def test_thinned_samples_are_refused(tmp_path):
    run = small_run([3, 5], [4, 1])
    thin = dataclasses.replace(run, workers=dataclasses.replace(run.workers, stride=4))
    with pytest.raises(InputError, match="stride is 4; expected samples of every step"):
        written(tmp_path, thin)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_a_clear_error():
    run = small_run([3, 5], [4, 1])
    with pytest.raises(InputError, match="No space left on device"):
        write_chrome_trace(Path("/dev/full"), run.workers, LAW, run.conditions)
