"""What predictions are worth to a policy that looks ahead, on workloads of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.doors import differences

from evenstep import names
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.workload.synthetic import yaml_file

EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"


def run(workload, predictor):
    """Idle share in points, and what was counted, of BF-IO with 20 steps of look-ahead, or none without a predictor."""
    trace = yaml_file.load(EXAMPLES / f"{workload}.yaml").source.draw(0).head(6000)
    policy = names.build("routing", {"name": "bf-io", "horizon": 20 if predictor else 0})
    made = names.build("predict", names.parse(predictor)) if predictor else None
    found = simulate(trace, policy, cluster=Cluster(), predictor=made)
    return 100 * found.summary["idle_share"], found.totals.counted


def test_survival_is_not_worse_than_no_look_ahead_and_the_literal_rule_is():
    without, _ = run("burst", None)
    survival, counted = run("burst", "survival")
    literal, _ = run("burst", "survival:refresh=literal")
    assert survival < without + 0.3
    assert literal > without + 0.8
    assert counted["predictions"] > counted["predictions_accepted"]
    assert counted["predictor_too_short"] > 0


def test_completions_alone_miss_long_requests_while_the_cluster_fills():
    _, counted = run("burst", "survival")
    _, alone = run("burst", "survival:running=0")
    assert alone["predictions_accepted"] > 10 * counted["predictions_accepted"]


@pytest.mark.parametrize("predictor", ["memorised", "bounded:of=memorised"])
def test_memorised_prompts_are_nearly_as_good_as_the_truth(predictor):
    truth, _ = run("recurring", "oracle")
    memorised, counted = run("recurring", predictor)
    assert memorised < truth + 0.5
    assert counted["predictor_by_prompt"] > counted["predictions"] / 2


def test_the_simulator_makes_a_fit_as_soon_as_it_is_due_and_as_the_reference_does():
    pytest.importorskip("lightgbm")
    trace = yaml_file.load(EXAMPLES / "recurring.yaml").source.draw(0).head(150)
    policy = names.build("routing", {"name": "bf-io", "horizon": 5})
    made = []

    def learned():
        made.append(names.build("predict", names.parse("learned:first=30,refit=40,trees=3")))
        return made[-1]

    cluster = Cluster(2, 6, pool=8)
    assert differences(trace, policy, cluster=cluster, predictor=learned, doors=("plain", "compiled")) == []
    fits = {predictor.counted["fits"] for predictor in made}
    assert len(fits) == 1 and fits.pop() >= 3
