"""The host of the compiled simulator: bad input is one clear error, and full buffers change nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.sim.policies import Holds, Keyed, Oldest

from evenstep.cost.linear import Linear
from evenstep.cost.unequal import Unequal
from evenstep.errors import InputError, PolicyError
from evenstep.measure.records import columns
from evenstep.predict.bounded import Bounded
from evenstep.predict.oracle import Oracle
from evenstep.predict.survival import Survival
from evenstep.predict.view import Prediction
from evenstep.request import Trace
from evenstep.routing.policies.best import Best
from evenstep.routing.policies.fcfs import FCFS
from evenstep.sim.cluster import state as cluster_state
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.host import loop_of
from evenstep.sim.cluster.simulation import Cluster, Outage, simulate

ONE = Linear(1.0, 1.0)
TRACE = Trace(np.array([3, 5]), np.array([4, 1]), name="short")
TIMED = dataclasses.replace(TRACE, arrival_s=np.array([0.0, 1.0]))


@dataclasses.dataclass(frozen=True)
class Ahead(Oldest):
    horizon: int = 2


def test_requests_that_wait_for_each_other_are_an_error_of_the_trace():
    trace = Trace(
        np.ones(2, np.int64),
        np.ones(2, np.int64),
        session=np.zeros(2, np.int64),
        after=np.array([-1, 1]),
        think_s=np.zeros(2),
    )
    with pytest.raises(InputError, match="trace: after is 'never ended for 1 request'"):
        simulate(trace, Oldest(), cluster=Cluster(arrivals="closed", users=1), step_time=ONE)


def test_a_predictor_that_answers_nonsense_is_named():
    class Short(Keyed):
        def predict(self, active, horizon):
            return Prediction(np.full(active.age.size, np.nan), np.zeros(active.age.size))

    trace = Trace(np.array([3, 5, 2]), np.array([4, 1, 1]))  # the third is sent while the first runs
    with pytest.raises(PolicyError, match="predictor Short answered .* expected finite values"):
        simulate(trace, Ahead(), cluster=Cluster(1, 2), step_time=ONE, predictor=Short())


def test_a_policy_goes_by_the_name_it_was_asked_for():
    with pytest.raises(PolicyError, match="^policy mine.py:Holds holds 2 waiting requests while nothing runs"):
        simulate(TRACE, Holds(), cluster=Cluster(1, 1, may_hold=True), step_time=ONE, name="mine.py:Holds")


def test_a_fleet_that_lost_every_worker_is_to_blame_for_what_waits_and_not_the_policy():
    lost = tuple(Outage(1, worker) for worker in range(2))
    with pytest.raises(InputError, match="^cluster: outages is 'every worker lost, requests waiting: 1'"):
        simulate(TRACE, Oldest(), cluster=Cluster(2, 1, outages=lost), step_time=ONE)


def test_memory_is_to_blame_for_a_request_that_outgrew_every_worker_before_it_went_back():
    there_and_back = Outage(3, 0), Outage(4, 0, back=True)  # alone it may outgrow its worker; waiting, it fits none
    fleet = Cluster(1, 1, kv_tokens=5.0, outages=there_and_back)
    with pytest.raises(InputError, match="^cluster: kv_tokens is 5.0; expected 6 or more, which request 0 holds"):
        simulate(TRACE[:1], Oldest(), cluster=fleet, step_time=ONE)


def test_conditions_say_how_a_run_was_made():
    out = simulate(TIMED, Ahead(), cluster=Cluster(2, 3, arrivals="timed"), step_time=ONE, predictor=Oracle(), seed=5)
    found = out.conditions
    assert (found.workers, found.slots, found.slots_total, found.group_sizes) == (2, 3, 6, (2,))
    assert (found.policy, found.predictor, found.oracle, found.seed) == ("Ahead", "oracle", True, 5)
    assert (found.arrivals, found.pool, found.overhead_s, found.seconds_per_token) == (
        "timed",
        0,
        (1.0,),
        1.0,
    )


@pytest.mark.parametrize("per_step", [1, 3])
def test_a_predictor_counts_the_steps_of_a_profile_and_not_the_output_tokens(per_step):
    steps = np.random.default_rng(0).integers(1, 30, 60)
    offsets = np.concatenate([[0], np.cumsum(steps)])
    drift = Drift(tokens_per_step=per_step, profiles=Profiles(np.ones(offsets[-1]), offsets))
    for predictor in (Survival, Bounded):
        found = [
            simulate(
                Trace(np.ones(60, np.int64), output, max_tokens=np.ones(60, np.int64)),
                Ahead(),
                cluster=Cluster(2, 4, pool=9, drift=drift),
                predictor=predictor(),
            )
            for output in (np.ones(60, np.int64), steps, 10 * steps)
        ]
        assert len({run.digest for run in found}) == 1
        assert found[0].totals.counted["predictions_accepted"] > 0


@pytest.mark.parametrize("records", [True, False])
def test_record_buffers_that_fill_up_change_nothing(monkeypatch, records):
    random = np.random.default_rng(3)
    trace = Trace(random.integers(1, 9, 60), random.integers(1, 9, 60))
    runs = []
    for rows in (1 << 14, 7):
        monkeypatch.setattr(cluster_state, "KEPT_ROWS", rows)
        monkeypatch.setattr(cluster_state, "MOST_STEP_ROWS", rows)
        monkeypatch.setattr(cluster_state, "PASSING_ROWS", rows)
        runs.append(
            simulate(
                trace,
                Ahead(),
                cluster=Cluster(2, 2, pool=9),
                step_time=ONE,
                predictor=Keyed(),
                records=records,
                decisions=True,
            )
        )
    whole, pieces = runs
    assert whole.digest == pieces.digest
    assert dataclasses.asdict(whole.totals) == dataclasses.asdict(pieces.totals)
    for table in ("requests", "steps", "decisions"):
        ours, theirs = getattr(whole, table), getattr(pieces, table)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            for column, values in columns(ours).items():
                assert np.array_equal(values, columns(theirs)[column], equal_nan=True), column


def test_worker_samples_fill_their_table_at_a_stride():
    out = simulate(TRACE, Oldest(), cluster=Cluster(1, 2), step_time=ONE, workers=2)
    assert out.workers is not None
    assert out.workers.stride == 2
    assert out.workers.step.tolist() == [0, 2]
    assert out.workers.load.tolist() == [[8.0], [5.0]]


def test_a_table_with_fewer_rows_than_there_are_groups_keeps_a_stride():
    trace = Trace(np.full(200, 3), np.full(200, 20))
    out = simulate(trace, Oldest(), cluster=Cluster(80, 1, groups=(1,) * 80), step_time=ONE, workers=10)
    assert 1 < out.workers.stride <= 128 and out.workers.step.tolist() == [0] * 10


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8])
def test_every_group_keeps_the_samples_of_its_steps_at_the_stride(room):
    trace, cluster = Trace(np.array([3, 5]), np.array([9, 7])), Cluster(2, 1, groups=(1, 1))
    whole, table = (simulate(trace, Oldest(), cluster=cluster, step_time=ONE, workers=rows).workers for rows in (100, room))
    assert (whole.stride, whole.step.size) == (1, 16)
    kept = np.flatnonzero(whole.step % table.stride == 0)[:room]
    assert (table.step.tolist(), table.group.tolist()) == (whole.step[kept].tolist(), whole.group[kept].tolist())
    assert table.load.tolist() == whole.load[kept].tolist()


def test_prefill_takes_time_with_timed_arrivals_only():
    for trace, arrivals, takes_time in ((TIMED, "timed", True), (TRACE, "saturated", False)):
        run = simulate(trace, Oldest(), cluster=Cluster(1, 2, arrivals=arrivals, prefill_base_s=1.0), step_time=ONE)
        assert (run.conditions.prefill, run.requests.admitted_s.min() > 0.0) == (takes_time, takes_time)


def test_a_policy_may_have_any_number_of_parameters():
    weights = (1.0,) * 3000
    run = simulate(TRACE, Best(class_weights=weights), predictor=Oracle(), cluster=Cluster(2, 1), step_time=ONE)
    assert run.totals.requests == len(TRACE)


def test_worker_samples_show_the_longest_request_where_the_law_asks_for_it():
    trace = Trace(np.array([3, 5, 9]), np.array([4, 1, 2]))
    fleet = Cluster(2, 2, pool=3)
    plain, seen = (simulate(trace, FCFS(), cluster=fleet, step_time=law, workers=8) for law in (ONE, Unequal()))
    assert plain.workers is not None and seen.workers is not None
    assert plain.workers.longest is None
    shown = seen.workers
    assert shown.running.tolist() == [[2, 1], [2, 0], [1, 0], [1, 0]]
    assert shown.load.tolist() == [[12, 5], [14, 0], [5, 0], [6, 0]]
    assert shown.longest.tolist() == [[9, 5], [10, 0], [5, 0], [6, 0]]


@pytest.mark.parametrize("policy", [FCFS(), Oldest()])
def test_the_loop_of_a_run_depends_on_the_fleet_alone(policy):
    named = [loop_of(policy, cluster, ONE) for cluster in (Cluster(2, 1), Cluster(2, 1, groups=(1, 1)))]
    assert [name.removeprefix("evenstep.sim.cluster.") for name in named] == ["short_loop", "loop"]
