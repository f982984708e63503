"""Means and paired differences of engine runs."""

import json

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.measure.engine_comparison import compare_engine_runs, known, to_json_object
from evenstep.measure.metrics import Slo
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine


def runs(budget, name):
    found = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        trace = Trace(prompt_tokens=rng.integers(1, 60, 50), output_tokens=rng.integers(1, 30, 50), name="mine")
        engine = Engine(token_budget=budget)
        found.append(simulate_engine(trace, Sarathi(), engine=engine, batch_time=Unit(), seed=seed, name=name))
    return found


def test_differences_are_paired_by_replicate():
    slow, fast = runs(20, "slow"), runs(200, "fast")
    found = compare_engine_runs([slow, fast])
    difference = found.policies[1].versus_first["e2e_mean_s"]
    by_hand = [b.summary["e2e_mean_s"] - a.summary["e2e_mean_s"] for a, b in zip(slow, fast, strict=True)]
    assert difference.value == pytest.approx(np.mean(by_hand)) and difference.value < 0
    assert found.policies[0].versus_first is None and found.policies[1].versus is None
    assert compare_engine_runs([slow, fast], baseline=1).policies[0].versus is not None


def test_the_json_holds_numbers_only_where_there_are_numbers():
    text = json.dumps(to_json_object(compare_engine_runs([runs(20, "a")])), allow_nan=False)
    assert json.loads(text)["policies"][0]["requests"] == 50
    assert known(float("nan")) is None and known(3) == 3


def test_copies_are_refused():
    one = runs(20, "a")[0]
    with pytest.raises(InputError, match="differ"):
        compare_engine_runs([[one, one]])


def test_counts_are_means_over_the_replicates():
    found = []
    for seed, misses in ((1, 3), (2, 4)):
        rng = np.random.default_rng(seed)
        trace = Trace(prompt_tokens=rng.integers(1, 60, 50), output_tokens=np.full(50, 4 + seed))
        low = np.where(np.arange(50) < misses, 9, 1)
        found.append(simulate_engine(trace, Sarathi(), batch_time=Unit(), bounds=(low, low + 8), seed=seed))
    (one,) = to_json_object(compare_engine_runs([found]))["policies"]
    assert one["counted"] == {"bounds_not_holding": 3.5}
    assert [of["counted"]["bounds_not_holding"] for of in one["per_seed"]] == [3, 4]


def test_an_objective_has_figures_and_differences_of_its_own():
    slow, fast = runs(20, "slow"), runs(200, "fast")
    median = np.median(slow[0].requests.first_token_s)
    found = compare_engine_runs([slow, fast], slo=Slo(ttft_s=float(median)))
    share = [result.mean("slo_share") for result in found.policies]
    assert 0.0 < share[0] < share[1] <= 1.0
    assert found.policies[1].versus_first["slo_share"].value == pytest.approx(share[1] - share[0])
    said = json.loads(json.dumps(to_json_object(found), allow_nan=False))
    assert said["slo"] == {"ttft_s": median, "tpot_s": None}
    assert said["policies"][0]["per_seed"][0]["goodput_requests_per_s"] > 0.0
    plain = to_json_object(compare_engine_runs([slow, fast]))
    assert "slo" not in plain and "slo_share" not in plain["policies"][0]
