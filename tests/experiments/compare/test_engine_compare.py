"""Comparing scheduling policies: common requests, loads, and refusals."""

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.experiments.compare.engine_compare import capacity, run_engine_comparison, traces_of
from evenstep.experiments.compare.engine_settings import EngineSettings, check
from evenstep.measure.engine_comparison import to_json_object
from evenstep.workload.replicate import rate

SETTINGS = EngineSettings(source="sample:azure-conv", limit=300, seeds=2, load=0.8, engine="kv-tokens=20000")


def test_a_load_is_a_share_of_what_the_engine_serves():
    traces = traces_of(SETTINGS, fewer=False)
    assert rate(traces[0]) == pytest.approx(0.8 * capacity(traces[0], SETTINGS), rel=0.05)


def test_policies_meet_the_same_requests_and_equal_ones_do_not_differ():
    from dataclasses import replace

    comparison, _ = run_engine_comparison(replace(SETTINGS, policies=["vllm", "vllm:watermark=0"]))
    first, second = comparison.policies
    assert first.digests == second.digests and len(set(first.digests)) == 2
    assert second.versus_first is not None
    assert all(one.value == 0.0 for one in second.versus_first.values())


def test_a_trace_without_times_asks_for_a_rate():
    from dataclasses import replace

    with pytest.raises(InputError, match="arrival times"):
        traces_of(replace(SETTINGS, source="sample:translation", load=None), fewer=True)


def test_a_policy_of_hindsight_says_that_it_saw_true_lengths():
    from dataclasses import replace

    few = replace(SETTINGS, limit=40, seeds=1, policies=["vllm", "h-sf", "a-max"])
    for bounds, oracles in (("trace", [False, True, False]), ("exact", [False, True, True])):
        comparison, _ = run_engine_comparison(replace(few, bounds=bounds))
        assert [one.oracle for one in comparison.policies] == oracles
        assert [one.reachable_live for one in comparison.policies] == [not one for one in oracles]
        shown = to_json_object(comparison)
        assert [one["oracle"] for one in shown["policies"]] == oracles and "oracle" not in shown["conditions"]


def test_a_predictor_that_learns_starts_every_run_knowing_nothing():
    from dataclasses import replace

    asked = replace(SETTINGS, policies=["vllm", "vllm:watermark=0"], bounds="survival", seeds=1)
    _, runs = run_engine_comparison(asked)
    assert runs[0][0].digest == runs[1][0].digest
    assert runs[0][0].totals.counted == runs[1][0].totals.counted
    assert np.isfinite(runs[0][0].summary["e2e_mean_s"])


def test_engines_give_the_same_digests_in_two_processes_as_in_one():
    from dataclasses import replace

    asked = replace(SETTINGS, policies=["vllm", "best"])
    one, two = (run_engine_comparison(replace(asked, processes=n))[0].policies for n in (1, 2))
    assert [result.digests for result in one] == [result.digests for result in two]


def test_fewer_than_one_process_is_refused():
    from dataclasses import replace

    with pytest.raises(InputError, match="--processes is 0; expected an integer >= 1"):
        check(replace(SETTINGS, processes=0))


def test_no_policy_at_all_is_refused():
    from dataclasses import replace

    with pytest.raises(InputError, match="compare: policies is 'empty'; expected at least one policy"):
        run_engine_comparison(replace(SETTINGS, policies=[]))
