"""Sweeps."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.experiments.sweeps import Heard, tiny

from evenstep.errors import InputError
from evenstep.experiments.crew import Places
from evenstep.experiments.jobs import Plan
from evenstep.experiments.sweep import runs, task
from evenstep.experiments.sweep.runs import Interrupted, Runs
from evenstep.experiments.sweep.sweeping import Forecast, Sweep, sweep
from evenstep.experiments.sweep.task import Workloads
from evenstep.measure.swept import write_swept


def written(swept, path):
    write_swept(swept, path)
    return path.read_bytes()


def test_every_policy_meets_every_replicate_at_every_point():
    found = sweep(tiny())
    assert found.points == ((2,), (4,))
    assert [[[run.replicate for run in runs] for runs in point] for point in found.runs] == [[[0, 1], [0, 1]]] * 2
    digests = {run.digest for point in found.runs for runs in point for run in runs}
    assert len(digests) == 8
    traces = {run.trace for point in found.runs for runs in point for run in runs}
    assert len(traces) == 2  # all points and policies have the same two replicates


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"executor": "rya"}, "executor is 'rya'; expected a known executor"), ({"processes": 0}, "processes is 0; expected")],
)
def test_an_unknown_place_to_run_in_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        sweep(tiny(), **asked)


def test_a_sweep_stopped_after_half_and_resumed_gives_the_same_bytes(tmp_path):
    whole = written(sweep(tiny()), tmp_path / "whole.parquet")
    with pytest.raises(Interrupted) as stop:
        sweep(tiny(), cache=tmp_path / "cache", progress=Heard(stop_after=4))
    assert (stop.value.made, stop.value.left) == (4, 4)
    heard = Heard()
    resumed = sweep(tiny(), cache=tmp_path / "cache", progress=heard)
    assert len(heard.labels) == 4
    assert written(resumed, tmp_path / "resumed.parquet") == whole


def test_policies_share_more_replicates_than_are_kept(monkeypatch):
    """A sweep of 20 replicates made each one again for every policy."""
    made: list[int] = []
    draw = Plan.replicate
    monkeypatch.setattr(Plan, "replicate", lambda plan, index: made.append(index) or draw(plan, index))
    for module in (task, runs):
        monkeypatch.setattr(module, "KEPT", 3)
    many = tiny(fixed={"limit": 60, "slots": 4, "seeds": 7}, over={"workers": [2]}, policies=["jsq", "br-0", "fcfs"])
    heard, running = Heard(), Sweep(many)
    assert sorted(made) == [*range(7)]  # for the keys
    made.clear()
    fresh = Workloads(running._workloads.sources)
    Runs(running.cache, fresh, Places(processes=1), heard).make(running.tasks())
    assert sorted(made) == [*range(7)]
    assert heard.labels == [*["jsq"] * 3, *["br-0"] * 3, *["fcfs"] * 3] * 2 + ["jsq", "br-0", "fcfs"]


def test_a_sweep_that_grows_runs_only_what_is_new(tmp_path):
    sweep(tiny(), cache=tmp_path)
    more = tiny(over={"workers": [2, 4, 5]}, policies=["br-0", "jsq"])
    left = [task.label for task in Sweep(more, cache=tmp_path).tasks()]
    assert len(left) == 4
    assert all(label.startswith("point 2 (workers=5), ") for label in left)
    heard = Heard()
    sweep(more, cache=tmp_path, progress=heard)
    assert heard.labels == ["br-0", "br-0", "jsq", "jsq"]


def test_a_damaged_cache_is_mended(tmp_path):
    first = written(sweep(tiny(), cache=tmp_path / "cache"), tmp_path / "a")
    for path in sorted((tmp_path / "cache").rglob("*.json"))[:3]:
        path.write_bytes(path.read_bytes()[:40])
    again = Sweep(tiny(), cache=tmp_path / "cache")
    assert len(again.tasks()) == 3
    assert again.cache.damaged == 3
    assert written(sweep(tiny(), cache=tmp_path / "cache"), tmp_path / "b") == first


def test_policies_that_lack_a_swept_option_are_run_once_and_shown_at_every_value():
    heard = Heard()
    found = sweep(tiny(over={"policy.candidates": [2, 4, 8]}), progress=heard)
    assert len(heard.labels) == 2 + 6
    assert len({point[0][0].digest for point in found.runs}) == 1
    assert found.curve("policy.candidates", 0, "idle_share")[0] == found.curve("policy.candidates", 0, "idle_share")[2]


def test_replicates_are_added_to_a_point_until_all_its_policies_are_known_well_enough(tmp_path):
    asked = "ci(idle_share) < 9%"
    found = sweep(tiny(), until=asked, most_seeds=12)
    counts = [len(point[0]) for point in found.runs]
    assert min(counts) > 2 and all(len(point[0]) == len(point[1]) for point in found.runs)
    for p, met in enumerate(found.met):
        widths = [found.interval(p, i, "idle_share") for i in range(2)]
        assert met == all((one.high - one.low) / 2 < 0.09 * one.value for one in widths)
        assert met or counts[p] == 12
    assert found.until == asked
    stopped = written(found, tmp_path / "a")
    assert written(sweep(tiny(), until=asked, most_seeds=12), tmp_path / "b") == stopped
    assert pq.read_table(tmp_path / "a").column("until_met").to_pylist()[0] == found.met[0]


def test_replicates_that_are_copies_are_passed_over_and_a_point_without_more_of_them_stops(tmp_path):
    path = tmp_path / "short.csv"
    rows = "".join(f"{5 + i},{1 + i % 3}\n" for i in range(4))
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + rows)
    asked = tiny(source=str(path), fixed={"slots": 1, "seeds": 2}, until="ci(makespan_s) < 0.0001%", most_seeds=9)
    found = sweep(asked)
    assert all(len(point[0]) == len({run.trace for run in point[0]}) < 9 for point in found.runs)


def test_replicates_that_are_copies_are_refused_where_their_number_is_fixed(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + "9,2\n" * 6)
    with pytest.raises(InputError, match="seeds is 2; expected replicates that differ"):
        sweep(tiny(source=str(path)))


def test_a_point_that_does_not_fit_its_workload_is_named_before_anything_runs(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n5,1\n6,2\n7,3\n")
    heard = Heard()
    with pytest.raises(InputError, match="arrivals=timed: lengths.csv: arrival times is 'absent'"):
        sweep(tiny(source=str(path), over={"arrivals": ["saturated", "timed"]}), progress=heard)
    assert heard.labels == []


def test_a_forecast_counts_what_is_left_and_keeps_what_it_timed(tmp_path):
    first = Sweep(tiny(over={"workers": [2, 3, 4, 5]}), cache=tmp_path).forecast(processes=1)
    assert (first.points, first.runs, first.cached, first.most_runs) == (4, 16, 0, 16)
    assert first.seconds > 0
    again = Sweep(tiny(over={"workers": [2, 3, 4, 5]}), cache=tmp_path)
    assert len(again.tasks()) == 16 - 3 * 2
    sweep(tiny(over={"workers": [2, 3, 4, 5]}), cache=tmp_path)
    done = Sweep(tiny(over={"workers": [2, 3, 4, 5]}), cache=tmp_path, until="ci(idle_share) < 1%").forecast()
    assert done == Forecast(points=4, runs=16, cached=16, seconds=None, most_runs=4 * 2 * 30)


def test_a_workload_can_be_swept(tmp_path):
    found = sweep(tiny(source="", over={"source": ["sample:azure-conv", "examples/workloads/burst.yaml"]}))
    assert len({point[0][0].trace for point in found.runs}) == 2
    assert np.isfinite(found.runs[1][0][0].summary["idle_share"])
