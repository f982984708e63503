"""Comparing scheduling policies: common requests, loads, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from tests.experiments.test_plain_first import Compiling

from evenstep.errors import InputError
from evenstep.experiments import crew
from evenstep.experiments.compare.engine_compare import Shared, capacity, run_engine_comparison, traces_of
from evenstep.experiments.compare.engine_settings import EngineSettings, check
from evenstep.measure.engine_comparison import to_json_object
from evenstep.workload.replicate import rate

SETTINGS = EngineSettings(source="sample:azure-conv", limit=300, seeds=2, load=0.8, engine="kv-tokens=20000")


def test_a_load_is_a_share_of_what_the_engine_serves():
    traces = traces_of(SETTINGS, fewer=False)
    assert rate(traces[0]) == pytest.approx(0.8 * capacity(traces[0], SETTINGS), rel=0.05)


def test_policies_meet_the_same_requests_and_equal_ones_do_not_differ():
    comparison, _ = run_engine_comparison(replace(SETTINGS, policies=["vllm", "vllm:watermark=0"]))
    first, second = comparison.policies
    assert first.digests == second.digests and len(set(first.digests)) == 2
    assert second.versus_first is not None
    assert all(one.value == 0.0 for one in second.versus_first.values())


def test_a_trace_without_times_asks_for_a_rate():
    with pytest.raises(InputError, match="arrival times"):
        traces_of(replace(SETTINGS, source="sample:translation", load=None), fewer=True)


def test_a_policy_of_hindsight_says_that_it_saw_true_lengths():
    few = replace(SETTINGS, limit=40, seeds=1, policies=["vllm", "h-sf", "a-max"])
    for bounds, oracles in (("trace", [False, True, False]), ("exact", [False, True, True])):
        comparison, _ = run_engine_comparison(replace(few, bounds=bounds))
        assert [one.oracle for one in comparison.policies] == oracles
        assert [one.reachable_live for one in comparison.policies] == [not one for one in oracles]
        shown = to_json_object(comparison)
        assert [one["oracle"] for one in shown["policies"]] == oracles and "oracle" not in shown["conditions"]


def test_a_predictor_that_learns_starts_every_run_knowing_nothing():
    asked = replace(SETTINGS, policies=["vllm", "vllm:watermark=0"], bounds="survival", seeds=1)
    _, runs = run_engine_comparison(asked)
    assert runs[0][0].digest == runs[1][0].digest
    assert runs[0][0].totals.counted == runs[1][0].totals.counted
    assert np.isfinite(runs[0][0].summary["e2e_mean_s"])


def test_engines_give_the_same_digests_in_two_processes_as_in_one():
    asked = replace(SETTINGS, policies=["vllm", "best"])
    one, two = (run_engine_comparison(replace(asked, processes=n))[0].policies for n in (1, 2))
    assert [result.digests for result in one] == [result.digests for result in two]


def test_fewer_than_one_process_is_refused():
    with pytest.raises(InputError, match="--processes is 0; expected an integer >= 1"):
        check(replace(SETTINGS, processes=0))


def test_no_policy_at_all_is_refused():
    with pytest.raises(InputError, match="compare: policies is 'empty'; expected at least one policy"):
        run_engine_comparison(replace(SETTINGS, policies=[]))


def test_a_policy_is_shown_as_soon_as_its_replicates_have_run(monkeypatch):
    happened, run_of = [], Shared.run_of

    def watched(shared, contender, index):
        happened.append((shared.names[contender], index))
        return run_of(shared, contender, index)

    monkeypatch.setattr(Shared, "run_of", watched)
    asked = replace(SETTINGS, policies=["vllm", "sarathi"], load=None, processes=1)
    run_engine_comparison(asked, on_policy=lambda runs: happened.append([run.conditions.seed for run in runs]))
    assert happened == [("vllm", 0), ("vllm", 1), [0, 1], ("sarathi", 0), ("sarathi", 1), [0, 1]]


def test_what_the_runs_need_is_compiled_elsewhere_while_plain_python_makes_them_with_the_same_bits(monkeypatch):
    asked = replace(SETTINGS, policies=["vllm", "best"], load=None, seeds=1, limit=40)
    compiled, _ = run_engine_comparison(asked)
    compiling, needed = Compiling(2), []

    def begin(kernels, places):
        needed.extend((type(one.build()[0]).__name__, loop) for one, loop in zip(kernels.asked, kernels.loops, strict=True))
        return compiling, True

    monkeypatch.setattr(crew.Kernels, "begin", begin)
    plain, _ = run_engine_comparison(asked)
    assert needed == [(name, "evenstep.sim.engine.loop") for name in ("Vllm", "Best")]
    assert compiling.loaded == [] and [one.digests for one in plain] == [one.digests for one in compiled]
