"""The design of a sweep."""

from __future__ import annotations

import re

import pytest
from tests.experiments.sweeps import tiny

from evenstep.errors import InputError
from evenstep.experiments.sweep.design import design_of, metric_names
from evenstep.experiments.sweep.file import read_sweep


def design(**changes):
    return design_of(*read_sweep(tiny(**changes)))


def test_every_point_has_the_fixed_settings_and_its_own():
    found = design(over={"workers": [2, 4], "load": [0.5]})
    assert [point.values for point in found.points] == [(2, 0.5), (4, 0.5)]
    first = found.points[0].settings
    assert (first.workers, first.slots, first.load, first.arrivals) == (2, 4, 0.5, "timed")
    assert found.points[1].label == "workers=4, load=0.5"


def test_several_workloads_are_a_parameter_like_any_other():
    found = design(source="", over={"source": ["sample:azure-conv", "other.csv"]})
    assert [point.settings.source for point in found.points] == ["sample:azure-conv", "other.csv"]


def test_an_option_goes_to_every_policy_that_has_it_and_to_no_other():
    found = design(over={"policy.candidates": [2, 8], "policy.age_limit": [0]}, policies=["jsq", "br-0"])
    jsq, br_0 = found.points[1].contenders
    assert dict(jsq.policy) == {"name": "jsq"}
    assert dict(br_0.policy) == {"name": "br-0", "candidates": 8, "age_limit": 0}
    assert br_0.build()[0].candidates == 8
    assert br_0.name == "br-0"


def test_an_option_of_a_predictor_goes_to_the_usual_predictor_of_a_policy_too():
    found = design(over={"predictor.buckets": [2, 8]}, policies=["jsq", "best", "bf-io:horizon=5,predictor=oracle"])
    jsq, best, bf_io = found.points[1].contenders
    assert jsq.predictor is None and bf_io.predictor == {"name": "oracle"}
    assert best.build()[1].buckets == 8
    assert design(over={"workers": [2]}, policies=["best"]).points[0].contenders[0].predictor is None


def test_the_type_of_a_setting_decides_what_a_range_of_it_holds():
    found = design(over={"pool": {"from": 2, "to": 5, "points": 4}, "load": {"from": 0.5, "to": 1, "points": 2}})
    assert found.points[-1].values == (5, 1.0)
    assert [type(value) for value in found.points[0].values] == [int, float]


def test_a_hypercube_has_the_points_asked_for():
    found = design(over={"pool": {"from": 2, "to": 500}}, sample={"latin-hypercube": 7, "seed": 2})
    assert len(found.points) == 7 and found.file.sample != "grid"


def test_every_number_of_a_summary_can_be_asked_for():
    names = metric_names()
    assert {"idle_share", "tokens_per_s", "oldest_wait_s", "tpot_p95_s", "energy_busy_idle_j"} <= set(names)
    assert "window" not in names and "overloaded" not in names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"over": {"workers": [2, 0]}}, "workers is 0; expected an integer >= 1"),
        ({"over": {"workers": ["two"]}}, "workers is 'two'; expected an integer"),
        ({"over": {"workers": []}}, "expected at least one value"),
        (
            {"over": {"policy.candidate": [2]}},
            "over.policy.candidate is 'candidate'; expected an option that a policy of this "
            "sweep has. Did you mean candidates",
        ),
        ({"over": {"predictor.x": [2]}}, "No predictor here takes any."),
        ({"over": {"policy.candidates": [2]}, "policies": ["br-0:candidates=3"]}, "also in br-0:candidates=3"),
        ({"over": {"arrivals": {"from": 1, "to": 2}}}, "expected a list of values"),
        ({"policies": []}, "policies is 'empty'"),
        ({"policies": ["jsq", "jsq"]}, "policies is 'jsq'; expected each policy once"),
        ({"policies": ["jqs"], "over": {"policy.ties": ["lowest"]}}, "Did you mean jsq?"),
        ({"metrics": ["idle"]}, "metrics is 'idle'; expected a known metric. Did you mean idle_share"),
        ({"until": "ci(idle) < 2%"}, "metric at position 4 is 'idle'"),
        ({"until": "ci(idle_share) < 2%", "fixed": {"seeds": 1}}, "fixed.seeds is 1; expected an integer from 2"),
        ({"over": {"groups": [[2, 2]], "workers": [4, 5]}}, "groups is [2, 2]; expected sizes >= 1 that add up to 5"),
    ],
)
def test_a_bad_design_is_refused_before_anything_runs(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        design(**changes)


@pytest.mark.parametrize(
    ("policies", "over", "message"),
    [
        ("[fcfs, 'best:horizon=-1']", "workers: [2]", "line 5: horizon of best is -1; expected an integer >= 1."),
        (
            "\n- fcfs\n- best:horzon=2",
            "workers: [2]",
            "line 7: option of best is 'horzon'; expected a known option. Did you mean horizon",
        ),
        ("\n- fcfs\n- bst", "workers: [2]", "line 7: policy is 'bst'; expected a known policy. Did you mean best"),
        ("\n- fcfs\n- jsq:ties", "workers: [2]", "line 7: option of jsq:ties is 'ties'; expected key=value."),
        (
            "['best:predictor=survivl']",
            "workers: [2]",
            "line 5: predictor is 'survivl'; expected a known predictor. Did you mean survival",
        ),
        (
            "['best:predictor=survival,predictor.window=-3']",
            "workers: [2]",
            "line 5: window of survival is -3; expected an integer >= 1.",
        ),
        ("['br-h:horizon=5']", "workers: [2]", "line 5: predictor of br-h:horizon=5 is 'missing'"),
        ("[best]", "policy.horizon: [20, -1]", "line 4: horizon of best is -1; expected an integer >= 1."),
        ("['best:predictor=survival']", "predictor.refresh-every: [0]", "line 4: refresh_every of survival is 0"),
        ("[best, jsq]", "policy.ties: [lowest, first]", "line 4: ties of jsq is 'first'; expected one of random, lowest."),
    ],
)
def test_a_policy_or_option_that_does_not_fit_is_refused_with_its_line_before_anything_runs(
    tmp_path, policies, over, message
):
    path = tmp_path / "s.yaml"
    path.write_text(f"version: 1\nsource: sample:azure-conv\nover:\n  {over}\npolicies: {policies}\n")
    with pytest.raises(InputError, match=re.escape(f"{path} {message}")):
        design_of(*read_sweep(path))
