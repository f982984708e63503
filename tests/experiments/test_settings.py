"""Settings of compare and simulate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenstep.config.fields import meaning
from evenstep.config.layers import Layer, settle
from evenstep.cost.linear import Linear
from evenstep.cost.piecewise import Piecewise
from evenstep.errors import InputError
from evenstep.experiments.settings import CompareSettings, FleetSettings, check_fits, checked
from evenstep.request import Trace


def settled(origin="command line", **values):
    return settle(CompareSettings, Layer(origin, values))


def test_defaults_are_those_of_the_contract():
    found = CompareSettings()
    assert (found.workers, found.slots, found.arrivals, found.pool) == (16, 72, "saturated", 128)
    assert (found.overhead_s, found.per_token_s, found.seeds) == (0.0049, 1.1e-7, 3)
    assert (found.model_params, found.peak_flops) == (8e9, 312e12)


def test_every_field_says_what_it_means():
    for kind in (FleetSettings, CompareSettings):
        assert set(meaning(kind)) >= set(kind.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", 0),
        ("slots", 0),
        ("pool", 0),
        ("seeds", 0),
        ("limit", 0),
        ("users", -1),
        ("think_s", -1.0),
        ("sessions", -1),
        ("queue_depth", -2),
        ("overhead_s", -0.1),
        ("per_token_s", math.inf),
        ("load", 0.0),
        ("rate", math.nan),
        ("kv_tokens", 0.0),
        ("model_params", -1.0),
        ("peak_flops", 0.0),
        ("processes", 0),
        ("prefill_base_s", -1.0),
        ("prefillers", -1),
        ("prefillers", 2),
        ("prefill_budget", 0),
        ("groups", [4, 4]),
        ("seed", -1),
        ("kv_reserve", -1.0),
        ("slots", [8, 8]),
        ("slots", [8] * 15 + [0]),
    ],
)
def test_a_field_out_of_range_is_named_as_its_layer_writes_it(name, value):
    flag = "--" + name.replace("_", "-")
    with pytest.raises(InputError, match=f"command line: {flag} is"):
        checked(settled(**{name: value}))
    with pytest.raises(InputError, match=f"mine.yaml: {name} is"):
        checked(settled("mine.yaml", **{name: value}))


@pytest.mark.parametrize(
    ("values", "arrivals"),
    [
        ({}, "saturated"),
        ({"load": 0.5}, "timed"),
        ({"rate": 3.0}, "timed"),
        ({"users": 5}, "closed"),
        ({"think_s": 1.0}, "closed"),
        ({"sessions": 4}, "closed"),
        ({"load": 0.5, "arrivals": "timed"}, "timed"),
    ],
)
def test_some_fields_imply_the_arrivals(values, arrivals):
    assert checked(settled(**values)).arrivals == arrivals


@pytest.mark.parametrize(
    "values",
    [
        {"load": 0.5, "arrivals": "saturated"},
        {"users": 5, "arrivals": "timed"},
        {"load": 0.5, "rate": 2.0},
        {"load": 0.5, "users": 2},
        {"sessions": 2, "users": 2},
        {"worker_speeds": "1,2", "law": "linear"},
    ],
)
def test_fields_that_contradict_each_other_are_refused(values):
    with pytest.raises(InputError):
        checked(settled(**values))


def test_worker_speeds_make_the_linear_law_one_of_each_worker():
    law = checked(settled(worker_speeds="1,2", per_token_s=1e-6, workers=3)).step_time()
    assert law.local_seconds(np.full(3, 100.0), *[np.zeros(3)] * 2).tolist() == pytest.approx([1e-4, 5e-5, 1e-4])


def test_users_think_and_sessions_become_a_cluster():
    assert checked(settled(users=5)).cluster().think_s == 0.0
    replayed = checked(settled(sessions=7)).cluster()
    assert (replayed.users, replayed.think_s) == (7, None)
    assert checked(settled(users=5, think_s=2.0)).cluster().users == 5
    assert CompareSettings().cluster().kv_tokens == math.inf


def test_a_fleet_may_have_slots_drift_outages_and_a_law_of_its_own():
    fleet = settled(
        workers=2,
        slots=[8, 4],
        kv_reserve=10.0,
        drift="growth=0.5",
        outages=["5:1"],
        law="piecewise:knots=0:0/9:1",
    )
    cluster = checked(fleet).cluster()
    assert (cluster.slots, cluster.kv_reserve, cluster.drift.growth) == ((8, 4), 10.0, 0.5)
    assert [(one.step, one.worker, one.back) for one in cluster.outages] == [(5, 1, False)]
    assert checked(settled(workers=3, slots=[8])).cluster().slots_of == (8, 8, 8)
    assert isinstance(fleet.value.step_time(), Piecewise)
    assert isinstance(CompareSettings(sync_s="2:0.1").step_time(), Linear)


@pytest.mark.parametrize("name", ["overhead_s", "per_token_s", "sync_s"])
def test_a_law_has_its_own_overhead(name):
    with pytest.raises(InputError, match=r"no value when a law is given.*linear:"):
        checked(settled(law="linear", **{name: 0.001}))


def test_a_trace_must_have_what_its_arrivals_need():
    lengths = Trace(np.array([1]), np.array([1]), name="lengths.csv")
    with pytest.raises(InputError, match=r"lengths.csv: arrival times is 'absent'.*--rate"):
        check_fits(settled(arrivals="timed"), lengths)
    for closed in ({"arrivals": "closed"}, {"sessions": 4}):  # sessions imply closed arrivals
        with pytest.raises(InputError, match=r"column session is 'absent'.*--users"):
            check_fits(settled(**closed), lengths)
    check_fits(settled(arrivals="timed", rate=2.0), lengths)
    check_fits(settled(arrivals="closed", users=2), lengths)


def test_a_fleet_with_fewer_than_no_prefillers_is_refused():
    with pytest.raises(InputError, match="prefillers is -1"):
        FleetSettings(prefillers=-1, prefill_base_s=0.1, arrivals="timed").cluster()
