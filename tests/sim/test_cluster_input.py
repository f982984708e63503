"""Bad input of the simulator is one clear error."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tests.sim.policies import Oldest

from evenstep.cost.linear import Linear
from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.predict.oracle import Oracle
from evenstep.request import Trace
from evenstep.routing.policies.max_min import MaxMin
from evenstep.routing.policies.min_min import MinMin
from evenstep.routing.policies.olb_lbmm import OlbLbmm
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster, Outage, simulate

ONE = Linear(1.0, 1.0)
TRACE = Trace(np.array([3, 5]), np.array([4, 1]), name="short")
TIMED = dataclasses.replace(TRACE, arrival_s=np.array([0.0, 1.0]))


@dataclasses.dataclass(frozen=True)
class Ahead(Oldest):
    horizon: int = 2


def raised(trace=TRACE, policy=None, door="auto", **cluster) -> str:
    with pytest.raises(InputError) as error:
        simulate(trace, policy or Oldest(), cluster=Cluster(**cluster), step_time=ONE, door=door)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_each_bad_input_names_its_place_its_field_and_what_was_expected():
    nothing = np.zeros(0, np.int64)
    assert "trace: requests is 0; expected one request or more" in raised(Trace(nothing, nothing))
    assert "object: policy is 'object'; expected an object with a method route(view)" in raised(policy=object())
    assert "Ahead: predictor is 'missing'" in raised(policy=Ahead())
    assert "Oldest: door is 'compiled'; expected auto or plain" in raised(door="compiled")
    assert "short: arrivals is 'timed'; expected a trace with times" in raised(arrivals="timed")
    assert "short: sessions is 'missing'; expected a trace with sessions" in raised(arrivals="closed")
    assert "short: request 1: prompt_tokens is 5; expected at most kv_tokens, 4" in raised(kv_tokens=4.0)


def test_lengths_that_are_no_integers_are_refused():
    said = raised(Trace(np.array([5]), np.array([2.5])))
    assert said.startswith("trace: output_tokens is float64; expected an array of integers.")


@pytest.mark.parametrize("outage", [Outage(1.5, 0), Outage(1, 0.5), Outage("1", 0), Outage(-1, 0), Outage(1, 1)])  # type: ignore[arg-type]
def test_an_outage_has_a_whole_step_and_a_known_worker(outage):
    assert "cluster: outages is Outage(" in raised(workers=1, outages=(outage,))


def test_loads_that_no_counter_could_sum_are_refused():
    huge = Trace(np.array([3, 1 << 60]), np.array([4, 1]), name="huge")
    said = raised(huge, workers=2, slots=4)
    assert said.startswith(f"huge: largest load is {(1 << 60) + 3}; expected at most {1 << 59:,} on so many slots.")
    long = Trace(np.array([3, 100]), np.array([4, 9000]), name="long")
    assert raised(long, workers=1024, slots=1024, drift=Drift(growth=1048575.5)).startswith(
        "long: largest load is 9436131025;"
    )
    assert raised(long, workers=1024, slots=1024, drift=Drift(sequence=(-5.0, 1048575.5))).startswith(
        "long: largest load is 94"
    )
    profiles = Profiles(np.array([2.5, 1e20]), np.array([0, 1, 2]))
    assert raised(drift=Drift(profiles=profiles)).startswith("drift: profiles is 100000000000000000000; expected at most")


def test_the_load_of_a_whole_run_may_exceed_what_one_step_may_hold():
    run = simulate(
        Trace(np.full(2, 1 << 38), np.full(2, 64)),
        Oldest(),
        cluster=Cluster(1, 2, drift=Drift(growth=0.25)),
        step_time=ONE,
    )
    assert run.totals.load_steps == run.steps.load_sum.sum() == 2 * (64 * (1 << 38) + 0.25 * 63 * 64 / 2)


@pytest.mark.parametrize("policy", [MinMin, MaxMin, OlbLbmm])
def test_no_run_shows_expected_output_tokens_so_a_policy_that_needs_them_is_refused(policy):
    said = raised(policy=policy(length="predicted"))
    assert said.startswith(f"{policy.__name__}: length is 'predicted'; expected prompt, since no simulation shows")
    assert simulate(TRACE, policy(), cluster=Cluster(), step_time=ONE).totals.requests == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trace": "short.csv"}, "trace is 'short.csv'; expected a Trace. evenstep.read_trace reads one."),
        ({"policy": "jsq"}, "policy is 'jsq'; expected an object with a method route(view). evenstep.compare takes names"),
        ({"policy": Oldest}, "policy is 'Oldest'; expected an object. Write Oldest()."),
        ({"cluster": {"workers": 4}}, "cluster is {'workers': 4}; expected a Cluster."),
        ({"step_time": 0.005}, "step_time is 0.005; expected a law."),
        ({"step_time": Linear}, "step_time is <class 'evenstep.cost.linear.Linear'>; expected a law."),
        ({"step_time": Unit()}, "step_time is Unit(seconds_each=1.0); expected a law."),
        ({"predictor": "survival"}, "predictor is 'survival'; expected an object with the methods predict and learn"),
        ({"predictor": Oracle}, "predictor is <class 'evenstep.predict.oracle.Oracle'>; expected an object"),
    ],
)
def test_an_argument_of_another_kind_is_named_before_anything_looks_into_it(changes, message):
    given = {"trace": TRACE, "policy": Oldest(), "cluster": Cluster(), "step_time": ONE} | changes
    with pytest.raises(InputError) as error:
        simulate(given.pop("trace"), given.pop("policy"), **given)
    assert f"simulate: {message}" in str(error.value)


@pytest.mark.parametrize("column", ["prompt_tokens", "output_tokens"])
def test_lengths_below_one_are_named_with_their_request(column):
    trace = dataclasses.replace(TRACE, **{column: np.array([2, 0])})
    assert f"short: request 1: {column} is 0; expected an integer >= 1" in raised(trace)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([1.0, 0.5], "short: arrival_s is 'unsorted'; expected times in ascending order"),
        ([0.0, math.nan], "short: request 1: arrival_s is nan; expected a finite time"),
        ([0.0, math.inf], "short: request 1: arrival_s is inf; expected a finite time"),
    ],
)
def test_times_must_be_finite_and_ascend(times, said):
    trace = dataclasses.replace(TRACE, arrival_s=np.array(times))
    assert said in raised(trace, arrivals="timed")


def test_memory_that_holds_a_profile_to_the_grain_holds_it():
    profiles = Profiles(np.array([11.4, 1.0]), np.array([0, 1, 2]))
    cluster = {"drift": Drift(profiles=profiles), "kv_tokens": 11.399999618530273}  # 11.4 in whole grains
    out = simulate(TRACE, Oldest(), cluster=Cluster(1, 1, **cluster), step_time=ONE)
    assert out.totals.requests == 2
    assert "at most kv_tokens, 11.3" in raised(drift=Drift(profiles=profiles), kv_tokens=11.3)


@pytest.mark.parametrize("slots", ["x", [4, 4], (4,), [4, 4, 4, "x"], math.inf, None])
def test_slots_that_are_no_numbers_are_refused_with_how_many_are_needed(slots):
    with pytest.raises(InputError, match="cluster: slots is .* an integer >= 1, or 4 of them, one a worker"):
        Cluster(workers=4, slots=slots)


def test_slots_may_be_a_list_and_workers_must_be_a_number():
    assert Cluster(workers=2, slots=[4, 8]).slots_of == (4, 8)
    with pytest.raises(InputError, match="workers is 'x'; expected an integer >= 1"):
        Cluster(workers="x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrivals": "Saturated"}, "arrivals is 'Saturated'; expected one of saturated, timed, closed. Did you mean"),
        ({"dispatch": "nope"}, "dispatch is 'nope'; expected one of pool, instant"),
        ({"workers": 4.0}, "workers is 4.0; expected an integer >= 1"),
        ({"workers": True}, "workers is True; expected an integer >= 1"),
        ({"groups": "2,2"}, "groups is '2,2'; expected sizes >= 1 that add up to 16 workers"),
        ({"groups": 4}, "groups is 4; expected sizes >= 1"),
        ({"drift": 5}, "drift is 5; expected a Drift"),
        ({"outages": 5}, "outages is 5; expected a list of Outage"),
        ({"outages": [1]}, "outages is [1]; expected a list of Outage"),
        ({"outages": [Outage(1 << 70, 0)]}, f"outages is {Outage(1 << 70, 0)}; expected a step in 0..{1 << 53}"),
        ({"pool": 1 << 70}, f"pool is {1 << 70}; expected an integer from 1 to {1 << 53}"),
        ({"queue_depth": 1 << 70}, f"queue_depth is {1 << 70}; expected an integer from -1 to {1 << 53}"),
    ],
)
def test_a_fleet_of_other_kinds_is_named(changes, message):
    with pytest.raises(InputError) as error:
        Cluster(**changes)
    assert message in str(error.value)


def test_a_fleet_takes_lists_and_numbers_of_numpy():
    one = Cluster(workers=np.int8(100), slots=np.full(100, 100, np.int8), groups=np.array([60, 40]))
    assert (one.workers, one.slots, one.groups) == (100, (100,) * 100, (60, 40))
    assert Cluster(workers=4, groups=[2, 2]).groups == (2, 2) and Cluster(slots=np.int64(8)).slots == 8


@pytest.mark.parametrize(
    "given", [{"door": "foo"}, {"slo": "ttft=2s"}, {"seed": 1.5}, {"seed": -1}, {"workers": "a"}, {"power": 5}]
)
def test_an_option_of_another_kind_is_named(given):
    with pytest.raises(InputError, match=f"simulate: {next(iter(given))} is "):
        simulate(TRACE, Oldest(), step_time=ONE, **given)


def test_a_law_needs_only_the_methods_that_a_simulator_calls():
    law = SimpleNamespace(table=ONE.table, overhead_seconds=ONE.overhead_seconds)
    found = simulate(TRACE, Oldest(), cluster=Cluster(), step_time=law)
    usual = simulate(TRACE, Oldest(), cluster=Cluster(), step_time=ONE)
    assert found.totals.makespan_s == usual.totals.makespan_s > 0
