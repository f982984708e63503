"""What `best` promises, shown on moments written by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.oracles.best_moment import ARRIVED, OWED
from tests.oracles.best_shares import COUNTERS, SLACK
from tests.routing._routed import moment, routed, seen

from evenstep import names, read_trace
from evenstep.errors import InputError
from evenstep.experiments.contenders import contender
from evenstep.predict.memorised import Memorised
from evenstep.request import Trace
from evenstep.routing.policies.best import Best
from evenstep.routing.view import HOLD, RoutingView
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.workload.replicate import scaled_to_rate


def flat(load: list[float], steps: int = 3) -> list[list[float]]:
    """Projections of workers whose only request stays."""
    return [[x + h for h in range(steps)] for x in load]


def test_a_lighter_worker_gets_the_larger_request():
    load = [900.0, 500.0, 1000.0]
    view = seen(moment(load, [1, 1, 0], [100.0, 480.0], projections=flat(load)))
    assert Best(horizon=2).route(view).worker.tolist() == [0, 1]


def test_a_worker_that_will_be_left_alone_for_long_is_filled_to_less():
    load, growth, sizes = [1000.0, 1500.0, 1500.0], [0, 1, 2], [470.0, 480.0, 490.0, 500.0, 510.0]
    stay, leave = [1000.0, 1010.0, 1020.0], [1000.0, 600.0, 201.0]
    filled: list[float] = []
    for ahead in (stay, leave):
        others = [[1500.0, 1510.0, 1520.0]] * 2
        view = moment(
            load,
            [1, 0, 0],
            sizes,
            projections=[ahead, *others],
            growth=growth,
            running=[10] * 3,
            waited_s=[1.0] * 5,
        )
        sent = Best(horizon=2, discount=1.0, pull=500.0).route(seen(view)).worker
        filled.append(sizes[int(np.flatnonzero(sent == 0)[0])])
    assert filled == [500.0, 510.0]


def test_the_level_falls_while_the_pool_holds_smaller_requests_than_arrive():
    load = [4000.0] + [5000.0] * 7
    sizes = [float(s) for s in range(100, 1100, 50)]
    view = moment(load, [1] + [0] * 7, sizes, projections=flat(load), waited_s=[9.0] * 20, running=[5] * 8)
    arrived = np.array(
        [
            np.float64(0.0).view(np.int64),
            1000,
            1000 * 11 * 4096,
            1000 * 2000,
            0,
            1000,
            19,
            0,
            0,
            *[0] * COUNTERS,
        ]
    )
    rarely = np.array([np.float64(0.0).view(np.int64), 1000, 1000 * 6 * 4096, 1000 * 64, 0, 1000, 19, 0, 0, *[0] * COUNTERS])
    policy = Best(horizon=2, steer=1.0, age_limit=0.0)
    large, small = (
        sizes[int(np.argmax(policy.route(replace(view, memory=kept)).worker == 0))] for kept in (rarely, arrived)
    )
    assert small < large


def test_what_it_keeps_is_what_arrived():
    load = [500.0, 500.0]
    first = seen(moment(load, [1, 1], [64.0, 256.0], projections=flat(load)))
    kept = Best(horizon=2).route(first).memory
    assert kept is not None
    assert kept[1:4].tolist() == [2, (6 + 8) * 4096, 320]
    older = replace(first, memory=kept, now_s=first.now_s + 1.0, waited_s=np.array([2.0, 0.5]))
    again = Best(horizon=2).route(older).memory
    assert again is not None
    assert again[1:4].tolist() == [3, (6 + 8 + 8) * 4096, 576]


def test_a_request_that_waited_behind_the_window_has_arrived_when_it_is_seen():
    load = [500.0, 500.0]
    first = seen(moment(load, [1, 1], [64.0, 256.0], projections=flat(load)))
    kept = routed_memory(first)
    again = replace(first, memory=kept, now_s=first.now_s + 0.01, waited_s=np.array([9.0, 9.0]))
    assert routed_memory(again)[1] == 2, "nobody new"
    shown = replace(again, waiting_id=np.array([1, 2]))
    assert routed_memory(shown)[[1, 6]].tolist() == [3, 2], "one more, of the largest id"


def routed_memory(view: RoutingView) -> np.ndarray:
    routed(Best(horizon=2), view)
    memory = Best(horizon=2).route(view).memory
    assert memory is not None
    return memory


def test_a_slower_worker_is_given_less():
    load = [1000.0, 1000.0, 0.0, 0.0]
    view = moment(load, [0, 0, 1, 1], [300.0, 600.0], projections=flat(load), seconds_per_token=[1e-7, 1e-7, 1e-7, 2e-7])
    assert Best(horizon=2).route(seen(view)).worker.tolist() == [3, 2]


def test_classes_share_the_slots_by_weight_over_time_while_more_wait_than_fit():
    load = [1000.0] * 4
    classes = np.array([0] * 18 + [1] * 6)
    view = seen(
        moment(
            load,
            [1] * 4,
            [100.0 + i for i in range(24)],
            projections=flat(load),
            waiting_class=classes.tolist(),
            waited_s=[1.0] * 24,
        )
    )
    for weights, expected in (((1.0,), (200, 200)), ((1.0, 3.0), (100, 300))):
        policy, count, memory = Best(horizon=2, class_weights=weights), Counter[int](), view.memory
        for decision in range(100):
            answer = policy.route(replace(view, decision=decision, memory=memory))
            assert answer.memory is not None
            memory = answer.memory
            count.update(classes[answer.worker != HOLD].tolist())
        assert abs(count[0] - expected[0]) <= 2 * SLACK and count.total() == 400


def test_classes_share_by_weight_also_where_memory_takes_fewer_than_the_slots():
    random = np.random.default_rng(0)
    trace = Trace(random.integers(50, 150, 240), random.integers(20, 40, 240), np.zeros(240), random.choice(3, 240))
    cluster = Cluster(2, 16, arrivals="timed", kv_tokens=600.0, kv_reserve=40.0)
    run = simulate(trace, Best(class_weights=(1.0, 2.0, 4.0)), cluster=cluster, predictor=Memorised())
    shares = [one["admitted_share"] for one in run.summary["by_class"]]
    assert shares == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.05)


def test_without_weights_classes_are_not_told_apart():
    load = [1000.0] * 4
    view = seen(moment(load, [1] * 4, [100.0 + i for i in range(8)], projections=flat(load), waited_s=[1.0] * 8))
    one = Best(horizon=2).route(view)
    other = Best(horizon=2).route(replace(view, waiting_class=np.arange(8)))
    assert one.worker.tolist() == other.worker.tolist()
    assert one.memory is not None and other.memory is not None
    assert one.memory.tolist() == other.memory.tolist()


def test_a_class_that_needs_little_is_served_soon_whatever_its_size():
    """One large request of class 7 never fits; it is put off for as long as the slack allows, not longer."""
    load = [1000.0] * 4
    view = seen(
        moment(
            load,
            [1] * 4,
            [100.0] * 11 + [4000.0],
            projections=flat(load),
            waiting_class=[0] * 11 + [7],
            waited_s=[1.0] * 12,
        )
    )
    policy, memory = Best(horizon=2, class_weights=(1.0,)), view.memory
    for decision in range(SLACK + 1):
        answer = policy.route(replace(view, decision=decision, memory=memory))
        assert answer.memory is not None
        assert (answer.worker != HOLD).sum() == 4
        assert (answer.worker[11] != HOLD) == (decision == SLACK)
        memory = answer.memory
    assert memory[OWED + 7] == 0


def test_cached_tokens_are_weighed_against_balance():
    load = [1000.0, 1100.0]
    cached = np.array([[0.0, 80.0], [0.0, 0.0]])
    view = moment(load, [1, 1], [100.0, 100.0], projections=flat(load), cached_tokens=cached)
    assert Best(horizon=2, affinity=100.0).route(seen(view)).worker.tolist() == [1, 0]
    nearly = replace(view, cached_tokens=np.array([[0.0, 80.0], [0.0, 79.0]]), waiting_load=np.array([300.0, 100.0]))
    assert Best(horizon=2, affinity=0.01).route(seen(nearly)).worker.tolist() == [0, 1]


def test_memory_is_left_for_what_runs_to_grow():
    load = [1000.0, 1000.0]
    view = moment(load, [1, 1], [400.0], projections=flat(load, 21), kv_free=[430.0, 500.0], running=[2, 2])
    assert Best(recompute=0.0).route(seen(view)).worker.tolist() == [1]
    assert Best(recompute=100.0).route(seen(view)).worker.tolist() == [HOLD]


def test_overdue_requests_go_first():
    load = [1000.0, 1000.0]
    view = moment(load, [1, 0], [900.0, 10.0], projections=flat(load), waited_s=[40.0, 1.0], mean_wait_s=2.0)
    policy, long_run = Best(horizon=2, age_limit=16.0, ageing=0.0), seen(view)
    long_run.memory[ARRIVED] = 1_000_000
    assert policy.route(long_run).worker.tolist() == [0, HOLD]
    assert policy.route(seen(view)).worker.tolist() == [HOLD, 0], "nobody has waited for a slot yet: no usual wait"


def test_an_old_request_goes_before_one_that_fits_a_little_better():
    load = [1000.0, 2000.0]
    for waited_s, to in ((30.0, [0, HOLD]), (2.0, [HOLD, 0])):
        view = moment(load, [1, 0], [600.0, 980.0], projections=flat(load), waited_s=[waited_s, 1.0], mean_wait_s=2.0)
        long_run = seen(view)
        long_run.memory[ARRIVED] = 1_000_000
        assert Best(horizon=2, steer=0.0).route(long_run).worker.tolist() == to


def test_where_no_worker_waits_for_another_requests_go_in_order_of_arrival():
    """Sizes and ages under which a barrier of two would choose others."""
    sizes, load = [10.0, 20.0, 900.0, 600.0, 450.0], [1000.0, 2000.0]
    for group, chosen in (([0, 0], False), ([0, 1], True)):
        view = moment(load, [1, 1], sizes, projections=flat(load), group=group, running=[5, 5])
        assert (set(np.flatnonzero(Best(horizon=2).route(seen(view)).worker >= 0)) == {0, 1}) == chosen
    alone = moment([1000.0], [3], sizes, projections=flat([1000.0]), running=[5])
    assert routed(Best(horizon=2), seen(alone)) == [0, 0, 0, HOLD, HOLD]
    tight = replace(seen(alone), kv_free=np.array([700.0]))
    assert routed(Best(horizon=2, recompute=0.0), tight) == [0, 0, HOLD, 0, HOLD], "it goes on with what fits"


def test_where_no_worker_waits_for_another_a_request_goes_to_the_lower_load():
    """Neither the requests that may leave soon nor the size of the new one decide."""
    ahead = [[3000.0, 500.0, 1.0], [1000.0, 1001.0, 1002.0], [2000.0, 2001.0, 2002.0]]
    for size in (10.0, 5000.0):
        view = moment([3000.0, 1000.0, 2000.0], [8, 2, 4], [size], projections=ahead, group=[0, 1, 2], running=[3, 3, 3])
        assert routed(Best(horizon=2), seen(view)) == [1]


def test_a_group_with_room_below_its_envelope_is_no_better_than_an_empty_one():
    """No step would get longer at once, but one group would decode all requests, and the other none."""
    view = moment([3000.0, 0.0, 0.0, 0.0], [8, 8, 8, 8], [900.0] * 6, group=[0, 0, 1, 1], running=[3, 0, 0, 0])
    assert sorted(routed(Best(horizon=2), seen(view))) == [1, 1, 2, 2, 3, 3]


def test_a_group_that_runs_nothing_gets_a_request_however_few_there_are():
    """Worker 1 has half a request less than its group's envelope, but its requests wait for worker 0 at each step."""
    view = moment([3000.0, 500.0, 0.0, 0.0], [8, 8, 8, 8], [900.0], group=[0, 0, 1, 1], running=[1, 1, 0, 0])
    assert routed(Best(horizon=2), seen(view)) == [2]


@pytest.mark.parametrize("group", [[0, 1, 2, 3], [0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]])
@pytest.mark.parametrize(("tokens", "goes_to_first"), [(10.0, False), (60.0, True)])
def test_cached_tokens_are_worth_as_much_load_in_groups_of_any_size(group, tokens, goes_to_first):
    load, cached = [9000.0, 8000.0, 8000.0, 8000.0], np.array([[tokens, 0.0, 0.0, 0.0]])
    view = moment(load, [8] * 4, [1000.0], group=group, running=[20] * 4, cached_tokens=cached)
    assert (routed(Best(horizon=2), seen(view)) == [0]) == goes_to_first


@pytest.mark.parametrize("groups", [(1,) * 6, (3, 3), (5, 1), (6,)])
def test_barrier_groups_below_saturation_answer_as_fast_as_with_least_load(groups):
    trace = read_trace("sample:azure-conv").head(400)
    fleet = Cluster(workers=6, groups=groups, slots=24, arrivals="timed")
    trace = scaled_to_rate(trace, 30.0)
    slowest = []
    for asked in ("best", "least-load"):
        policy, predictor = contender(asked).build()
        slowest.append(simulate(trace, policy, cluster=fleet, predictor=predictor).summary["tpot_p95_s"])
    assert slowest[0] <= 1.02 * slowest[1]


def test_a_fleet_of_one_worker_serves_in_order_of_arrival():
    trace = Trace(np.array([50, 9000, 70, 4000, 60] * 40), np.array([30, 8, 90, 20, 50] * 40))
    cluster = Cluster(workers=1, slots=8, pool=32)
    assert_alike("best:predictor=survival", "fcfs", trace, cluster)


def assert_alike(one: str, other: str, trace: Trace, cluster: Cluster) -> None:
    digests: list[str] = []
    for asked in (one, other):
        policy, predictor = contender(asked).build()
        digests.append(simulate(trace, policy, cluster=cluster, predictor=predictor).digest)
    assert digests[0] == digests[1]


def test_a_fleet_whose_memory_binds_is_never_held_for_ever():
    prompts, outputs = [50, 50, 50, 20_000, 20_000], [8, 15, 49, 3, 110]
    trace = Trace(np.array(prompts), np.array(outputs))
    for workers, tokens in ((1, 25_000.0), (1, 20_050.0), (2, 20_000.0)):
        policy, predictor = contender("best").build()
        cluster = Cluster(workers=workers, slots=3, pool=15, kv_tokens=tokens)
        run = simulate(trace, policy, cluster=cluster, predictor=predictor)
        assert run.summary["requests"] == 5


def test_nobody_has_to_be_named_to_predict_for_it():
    policy, predictor = contender("best").build()
    assert isinstance(policy, Best)
    assert isinstance(predictor, Memorised)
    assert type(contender("best:predictor=survival").build()[1]).__name__ == "Survival"


@pytest.mark.parametrize(
    "option",
    ["horizon=0", "discount=0", "starts=4", "pull=-1", "correction=0", "class-weights=0", "affinity=inf"],
)
def test_an_option_out_of_range_is_refused_by_name(option: str) -> None:
    with pytest.raises(InputError) as caught:
        names.build("routing", names.parse(f"best:{option}"))
    assert option.split("=", maxsplit=1)[0].replace("-", "_") in str(caught.value)
