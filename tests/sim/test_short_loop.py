"""The short loop: taken where it fits, and equal to the long one in every table, metric and digest."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from tests.sim.doors import STEP, differences
from tests.sim.policies import Fingerprint, Holds, Oldest

from evenstep import names
from evenstep.cost.piecewise import Piecewise
from evenstep.cost.unequal import Unequal
from evenstep.errors import PolicyError
from evenstep.measure.records import columns
from evenstep.request import Trace
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.view import RoutingDecision
from evenstep.sim.cluster import short_state as short_loop
from evenstep.sim.cluster import state as cluster_state
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.model import ShortRun
from evenstep.sim.cluster.simulation import Cluster, Outage, simulate
from evenstep.sim.cluster.state import Options, prepared

RANDOM = np.random.default_rng(5)
TRACE = Trace(RANDOM.integers(1, 90, 400), RANDOM.integers(1, 40, 400), arrival_s=np.sort(RANDOM.random(400) * 60.0))
SATURATED, TIMED = Cluster(4, 3, pool=20), Cluster(4, 3, arrivals="timed")
OTHERS = {
    "groups": Cluster(4, 3, groups=(2, 2)),
    "instant": Cluster(4, 3, dispatch="instant"),
    "queues": Cluster(4, 3, queue_depth=1),
    "memory": Cluster(4, 3, kv_tokens=1e6),
    "outages": Cluster(4, 3, outages=(Outage(2, 1),)),
    "users": Cluster(4, 3, arrivals="closed", think_s=1.0),
    "prefill": Cluster(4, 3, arrivals="timed", prefill_base_s=0.1),
    "tokens": Cluster(4, 3, drift=Drift(tokens_per_step=2)),
    "sequence": Cluster(4, 3, drift=Drift(sequence=(1.0, 0.0))),
    "profiles": Cluster(4, 3, drift=Drift(profiles=Profiles(np.ones(400), np.arange(401)))),
}


def runs(cluster, policy=None, **options):
    """The same run through the long loop, which alone writes down decisions, and through the short one."""
    policy = policy or FCFS()
    return [
        simulate(TRACE, policy, cluster=cluster, step_time=STEP, seed=3, decisions=decisions, **options)
        for decisions in (True, False)
    ]


def is_short(cluster, step_time=STEP, decisions=False, policy=None) -> bool:
    state = prepared(TRACE, policy or FCFS(), cluster, step_time, Options(decisions=decisions))
    return isinstance(state.run, ShortRun)


def equal(ours, theirs) -> list[str]:
    """Columns of two tables that differ; energies to a rounding error."""
    mine, yours = columns(ours), columns(theirs)
    return [
        name
        for name, column in mine.items()
        if not (np.allclose if "energy" in name else np.array_equal)(column, yours[name])
    ]


def flat(value, name=""):
    """Every number of a summary by its path."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in flat(part, f"{name}.{key}").items()}
    if isinstance(value, list):
        return {k: v for i, part in enumerate(value) for k, v in flat(part, f"{name}[{i}]").items()}
    return {name: value if isinstance(value, int | float) else hash(value)}


@pytest.mark.parametrize("cluster", [SATURATED, TIMED], ids=["saturated", "timed"])
def test_one_group_limited_by_slots_alone_takes_the_short_loop(cluster):
    assert is_short(cluster)
    assert is_short(dataclasses.replace(cluster, slots=(1, 2, 3, 4), drift=Drift(growth=0.25)))


@pytest.mark.parametrize("cluster", OTHERS.values(), ids=OTHERS)
def test_everything_else_takes_the_long_one(cluster):
    assert not is_short(cluster)


def test_laws_decisions_and_policies_that_look_ahead_take_the_long_one():
    assert not is_short(SATURATED, step_time=Piecewise("0:0/10:0.1/20:0.4"))
    assert not is_short(SATURATED, step_time=Unequal()) and is_short(SATURATED, step_time=Unequal(share=0.0))
    assert not is_short(SATURATED, decisions=True)
    assert not is_short(SATURATED, policy=Fingerprint(horizon=1))


@pytest.mark.parametrize("cluster", [SATURATED, TIMED], ids=["saturated", "timed"])
@pytest.mark.parametrize("name", ["fcfs", "jsq", "least-load", "br-0"])
def test_both_loops_give_the_same_tables_samples_and_metrics(cluster, name):
    policy = names.build("routing", {"name": name})
    long, short = runs(cluster, policy, workers=16)
    assert equal(long.requests, short.requests) == []
    assert equal(long.steps, short.steps) == []
    assert dataclasses.asdict(long.totals) == dataclasses.asdict(short.totals)
    assert (long.digest, long.workers.stride) == (short.digest, short.workers.stride)
    assert np.array_equal(long.workers.load, short.workers.load)
    assert np.array_equal(long.workers.duration_s, short.workers.duration_s)
    assert flat(long.summary) == pytest.approx(flat(short.summary), rel=1e-9)


@pytest.mark.parametrize("cluster", [SATURATED, TIMED], ids=["saturated", "timed"])
def test_without_records_requests_are_measured_when_they_complete(monkeypatch, cluster):
    kept, whole = (
        runs(cluster),
        simulate(TRACE, FCFS(), cluster=cluster, step_time=STEP, seed=3, records=False),
    )
    monkeypatch.setattr(cluster_state, "PASSING_ROWS", 8)
    pieces = simulate(TRACE, FCFS(), cluster=cluster, step_time=STEP, seed=3, records=False)
    assert kept[0].digest == whole.digest == pieces.digest
    for name in (
        "requests",
        "mean_wait_s",
        "oldest_wait_s",
        "tpot_mean_s",
        "ttft_mean_s",
        "energy_busy_idle_j",
    ):
        assert whole.summary[name] == pytest.approx(kept[0].summary[name], rel=1e-9), name
        assert pieces.summary[name] == pytest.approx(kept[0].summary[name], rel=1e-9), name


def test_record_buffers_that_fill_up_and_blocks_of_the_tables_change_nothing(monkeypatch):
    whole = runs(SATURATED)[1]
    monkeypatch.setattr(cluster_state, "KEPT_ROWS", 7)
    monkeypatch.setattr(cluster_state, "MOST_STEP_ROWS", 7)
    monkeypatch.setattr(short_loop.kept_tables, "__defaults__", (33,))  # rows of a table
    pieces = runs(SATURATED)[1]
    assert whole.digest == pieces.digest
    assert flat(whole.summary) == pytest.approx(flat(pieces.summary), rel=1e-12)
    assert equal(whole.steps, pieces.steps) == equal(whole.requests, pieces.requests) == []


@pytest.mark.parametrize("policy", [FCFS(), Fingerprint(hold=0.5)], ids=["fcfs", "holds some"])
def test_the_pool_grows_when_many_arrive_at_once(policy):
    rows = 1300
    trace = Trace(np.full(rows, 4), np.full(rows, 3), arrival_s=np.zeros(rows), request_class=np.arange(rows) % 3)
    cluster = Cluster(8, 40, arrivals="timed")
    long, short = (
        simulate(trace, policy, cluster=cluster, step_time=STEP, decisions=decisions) for decisions in (True, False)
    )
    assert long.digest == short.digest
    assert dataclasses.asdict(long.totals) == dataclasses.asdict(short.totals)


@pytest.mark.parametrize("worker", [[9, -1], [-2, -1], [0, 0, 0, 0, -1], [1, 0, -1, 1, 9], [1, 0, 1, -1, 0]])
def test_broken_answers_are_named_as_the_long_loop_names_them(worker):
    class Breaks:
        def route(self, view):
            answer = np.full(view.waiting_id.size, -1)
            answer[: len(worker)] = worker
            return RoutingDecision(answer)

    said = []
    for decisions in (True, False):
        with pytest.raises(PolicyError) as error:
            simulate(
                TRACE,
                Breaks(),
                cluster=Cluster(2, (1, 2), pool=9),
                step_time=STEP,
                decisions=decisions,
                name="b",
            )
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "policy b broke its contract at decision 0" in said[0]


@pytest.mark.parametrize("cluster", [SATURATED, TIMED], ids=["saturated", "timed"])
def test_a_policy_that_holds_for_ever_is_stuck(cluster):
    with pytest.raises(PolicyError, match="holds .* waiting requests while nothing runs"):
        simulate(TRACE, Holds(), cluster=dataclasses.replace(cluster, may_hold=True), step_time=STEP)


@pytest.mark.parametrize(
    "cluster", [pytest.param(SATURATED, id="saturated"), pytest.param(TIMED, id="timed", marks=pytest.mark.slow)]
)
def test_a_worker_that_runs_nothing_is_given_work_that_the_policy_holds(cluster):
    assert differences(TRACE, Holds(), cluster=cluster, step_time=STEP) == []
    assert simulate(TRACE, Holds(), cluster=cluster, step_time=STEP).totals.counted["held_decisions"] > 0


@pytest.mark.slow
def test_a_run_that_fits_compiles_the_short_loop_only():
    program = """
import sys, numpy as np
from evenstep import Cluster, Trace, names, simulate
simulate(Trace(np.ones(9, int), np.ones(9, int)), names.build("routing", {"name": "fcfs"}), cluster=Cluster(2, 2))
print(*sorted(name for name in sys.modules if name in ("evenstep.sim.cluster.short_loop", "evenstep.sim.cluster.loop")))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["evenstep.sim.cluster.short_loop"]


def test_the_plain_door_runs_the_same_short_loop():
    run = simulate(TRACE, Oldest(), cluster=SATURATED, step_time=STEP, door="plain")
    assert run.digest == runs(SATURATED)[1].digest
