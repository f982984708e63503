"""Comparing policies from Python."""

from __future__ import annotations

import numpy as np
import pytest

import evenstep
from evenstep.cost.linear import Linear
from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import InputError
from evenstep.experiments.compare.running import run_comparison
from evenstep.experiments.contenders import contenders
from evenstep.experiments.jobs import Plan
from evenstep.experiments.sources import Reading, scaled
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster

CLUSTER = Cluster(workers=3, slots=2, pool=8)


def opened(source, load=None, **read):
    return scaled(Reading(source, **read).workload(), CLUSTER, Linear(), load=load)


def trace(rows: int = 60) -> Trace:
    return Trace(np.arange(5, 5 + rows), np.arange(rows) % 7 + 1, np.arange(rows) * 0.01, name="small")


def test_policies_come_back_in_the_order_asked_with_differences_to_the_first():
    found = evenstep.compare(trace(), ["jsq:ties=lowest", "fcfs", "least-load"], cluster=CLUSTER)
    assert [p.policy for p in found.policies] == ["jsq:ties=lowest", "fcfs", "least-load"]
    assert found.policies[0].versus_first is None
    assert found.policies[1].versus_first["makespan_s"].value == 0.0  # the same rule, with equal slots
    assert found.policies[0].digest == found.policies[1].digest != found.policies[2].digest
    assert len(found.seeds) == 3


def test_the_first_replicate_is_the_trace_itself():
    alone = evenstep.simulate(trace(), evenstep_jsq(), cluster=CLUSTER, step_time=Linear())
    found = evenstep.compare(trace(), ["jsq"], cluster=CLUSTER, seeds=2)
    assert found.policies[0].digests[0] == alone.digest


def evenstep_jsq():
    from evenstep.routing.policies.jsq import JSQ

    return JSQ()


def test_contenders_are_told_in_order_when_they_are_complete():
    told = []
    plan = Plan(source=trace(), cluster=CLUSTER, step_time=Linear(), seeds=2)
    run_comparison(
        plan, contenders(["jsq", "fcfs"]), on_contender=lambda runs: told.append((runs[0].conditions.policy, len(runs)))
    )
    assert told == [("jsq", 2), ("fcfs", 2)]


def test_another_baseline_adds_differences_to_it():
    found = evenstep.compare(trace(), ["jsq", "fcfs"], cluster=CLUSTER, baseline="fcfs", seeds=2)
    assert found.baseline == 1
    assert found.policies[0].versus is not None and found.policies[1].versus is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ["jqs"]}, "Did you mean jsq"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": "a"}, "compare: seeds is 'a'; expected an integer >= 1"),
        ({"seeds": 2.5}, "seeds is 2.5; expected an integer >= 1"),
        ({"seed": -1}, "seed is -1; expected an integer >= 0"),
        ({"seed": 1 << 60}, "expected an integer from 0 to 9007199254740992"),
        ({"processes": "x"}, "processes is 'x'; expected an integer >= 1"),
        ({"slo": 3}, "slo is 3; expected an objective. For instance slo="),
        ({"baseline": "fcfs"}, "expected one of the policies compared"),
        ({"load": 0.5, "rate": 3.0}, "not both"),
        ({"rate": -1.0}, "expected a finite number > 0"),
        ({"cluster": {"workers": 4}}, "compare: cluster is .*; expected a Cluster"),
        ({"step_time": 0.005}, "compare: step_time is 0.005; expected a law"),
        ({"step_time": evenstep.Linear}, "compare: step_time is <class .*; expected a law"),
        ({"step_time": TokenBudget()}, "compare: step_time is TokenBudget.*; expected a law"),
        ({"baseline": 1}, "baseline is 1; expected one of the policies compared"),
        ({"progress": print}, "progress is 'builtin_function_or_method'; expected a Progress"),
    ],
)
def test_bad_input_is_one_error(changes, message):
    asked = {"policies": ["jsq"], "cluster": CLUSTER} | changes
    with pytest.raises(InputError, match=message):
        evenstep.compare(trace(), **asked)


def test_a_load_stretches_the_arrivals():
    slow = opened(trace(), load=0.1)
    fast = opened(trace(), load=0.9)
    assert isinstance(slow, Trace) and isinstance(fast, Trace)
    assert slow.arrival_s[-1] == pytest.approx(9 * fast.arrival_s[-1])


def test_a_limit_cuts_a_trace_and_is_refused_for_what_is_drawn():
    cut = opened(trace(), limit=7)
    assert isinstance(cut, Trace) and len(cut) == 7

    class Drawn:
        name = "drawn"

        def draw(self, seed, replicate=0):
            return trace()

    with pytest.raises(InputError, match="limit is 7"):
        opened(Drawn(), limit=7)


def test_a_path_is_read_and_its_format_may_be_named(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("num_prefill_tokens,num_decode_tokens\n5,2\n6,3\n7,4\n")
    found = opened(str(file), limit=2)
    assert isinstance(found, Trace) and found.prompt_tokens.tolist() == [5, 6]
    with pytest.raises(InputError, match="expected a known trace format"):
        opened(str(file), format_name="azuer")


class Frame:
    """Looks like a DataFrame."""

    columns = ("prompt", "output")


@pytest.mark.parametrize(("source", "kind"), [(None, "None"), (Frame(), "Frame"), (5, "int")])
def test_what_is_no_source_is_refused_with_what_to_give(source, kind):
    with pytest.raises(InputError, match=f"source is '{kind}'; expected a Trace, a path, or sample:NAME.*from_columns"):
        evenstep.compare(source, ["jsq"])


def test_a_load_or_rate_below_0_is_named():
    for name in ("load", "rate"):
        with pytest.raises(InputError, match=f"compare: {name} is -1; expected a finite number > 0"):
            evenstep.compare(trace(), ["jsq"], cluster=CLUSTER, **{name: -1})


def test_an_unknown_policy_or_metric_of_a_comparison_is_an_input_error():
    found = evenstep.compare(trace(), ["jsq", "fcfs"], cluster=CLUSTER, seeds=1)
    with pytest.raises(InputError, match="policy is 0; expected one of the policies compared. Known: fcfs, jsq"):
        found[0]
    with pytest.raises(InputError, match="metric is 'idle'; expected a known metric. Did you mean idle_share"):
        found["fcfs"].versus_first["idle"]
    assert found["fcfs"].versus_first.get("idle") is None


def test_a_load_means_timed_arrivals():
    assert evenstep.compare(trace(), "jsq", load=0.5, seeds=1).conditions.arrivals == "timed"
    assert evenstep.compare(trace(), "jsq", seeds=1).conditions.arrivals == "saturated"
    with pytest.raises(InputError, match="arrivals is 'saturated'; expected timed, since a load or rate is given"):
        evenstep.compare(trace(), "jsq", load=0.5, cluster=CLUSTER)


def test_a_comparison_is_a_sequence_of_its_results():
    found = evenstep.compare(trace(), ["jsq", "fcfs"], cluster=CLUSTER, seeds=1)
    assert [one.policy for one in found] == ["jsq", "fcfs"] and len(found) == 2
    assert "jsq" in found and found["fcfs"] in found and "best" not in found
