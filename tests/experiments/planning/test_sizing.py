"""The least fleet that `evenstep plan` finds."""

import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.experiments.contenders import contenders
from evenstep.experiments.lengths import Laws, alike
from evenstep.experiments.planning.settings import PlanSettings
from evenstep.experiments.planning.sizing import Demand, Search, least_enough, sized
from evenstep.measure.middle import middle
from evenstep.sim.cluster.simulation import simulate
from evenstep.workload.synthetic.laws import Constant, Geometric
from evenstep.workload.synthetic.synthetic import Synthetic

#: A step lasts 1 s and 0.01 s a KV token; each request has 10 prompt and 5 output tokens, so 12 KV tokens on average.
SMALL = PlanSettings(slo="tpot=2s", overhead_s=1.0, per_token_s=0.01, slots=[2], requests=1_000, seeds=1, policies=["jsq"])
LENGTHS = alike(10, 5)
#: A law without a closed form: every second worker is half as fast.
ALTERNATING = "per-worker:speed=1/0.5,overhead_s=1,per_token_s=0.01"


def sizes_of(settings, rate, lengths=LENGTHS):
    return sized(Demand(settings, lengths, rate), contenders(settings.policies), 1, None)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 12), st.integers(1, 12))
def test_the_search_finds_the_least_fleet_that_is_enough_and_knows_its_smaller_neighbour(needed, unit, first, most):
    asked = []

    def is_enough(workers):
        asked.append(workers)
        return workers >= needed

    found = least_enough(is_enough, min(first, most) * unit, unit, most * unit)
    least = -(-needed // unit) * unit
    assert found == (least if least <= most * unit else None)
    assert all(workers % unit == 0 and 0 < workers <= most * unit for workers in asked)
    assert len(asked) <= 10
    if found is not None:
        assert found in asked
        assert found == unit or found - unit in asked


def test_the_closed_form_of_two_slots_a_worker():
    """Two requests hold 24 tokens: a step of 1.24 s makes 2 tokens, so a worker serves 2 / 1.24 / 5 requests a second."""
    demand = Demand(SMALL, LENGTHS, 1.0)
    assert demand.served(3, 2) == pytest.approx(3 * 2 / 1.24 / 5)
    assert demand.least(2) == 4  # three serve 0.968
    assert Demand(SMALL, LENGTHS, 0.9).least(2) == 3


def test_kv_memory_limits_the_requests_that_run_in_the_closed_form():
    """Memory for 18 tokens holds 1.5 requests of 12 on average."""
    demand = Demand(replace(SMALL, kv_tokens=18.0), LENGTHS, 1.0)
    assert demand.served(1, 2) == pytest.approx(1.5 / 1.18 / 5)
    assert demand.served(1, 1) == pytest.approx(1 / 1.12 / 5)


def test_a_run_is_as_long_as_the_requests_that_memory_lets_run_need(monkeypatch):
    """With memory for 1.5 requests a worker, 100 slots keep no more busy: two workers run 3 at a time, not 200."""
    drawn, trace = [], Demand.trace
    monkeypatch.setattr(Demand, "trace", lambda demand, *asked: drawn.append(asked[0]) or trace(demand, *asked))
    settings = replace(SMALL, kv_tokens=18.0, share=1e-9)
    Search(Demand(settings, LENGTHS, 0.4), contenders(["jsq"])[0], 100).tried(2)
    assert drawn == [3, 3]


def test_the_fleet_that_is_found_is_enough_and_one_worker_less_is_not():
    (size,) = sizes_of(SMALL, 1.0)
    assert size.closed_form_workers == 4
    assert size.next_smaller is not None
    assert size.next_smaller.workers == size.workers - 1
    demand = Demand(SMALL, LENGTHS, 1.0)
    for workers, is_enough in ((size.workers, True), (size.workers - 1, False)):
        run = partial(simulate, demand.trace(2, 0), contenders(["jsq"])[0].build()[0], step_time=demand.law)
        at_rate = middle(run(cluster=SMALL.fleet(workers, 2, "timed").cluster()), SMALL.fleet(1, 1, "timed").objective())
        full = middle(run(cluster=SMALL.fleet(workers, 2, "saturated").cluster()))
        served = full["window_tokens_per_s"] / 5
        assert (at_rate["slo_share"] >= 0.95 and served >= 1.0) == is_enough
        if is_enough:
            assert size.slo_share == at_rate["slo_share"]
            assert size.requests_per_s == pytest.approx(served)


def test_a_stricter_objective_needs_more_workers_than_keeping_up():
    """A lone request takes steps of 1.1 to 1.14 s, two of the same age 1.2 to 1.28 s."""
    (loose,), (strict,) = sizes_of(SMALL, 0.5), sizes_of(replace(SMALL, slo="tpot=1.19s"), 0.5)
    assert loose.closed_form_workers == strict.closed_form_workers == 2
    assert strict.workers > loose.workers
    assert strict.next_smaller.slo_share < 0.95 <= strict.slo_share


def test_an_objective_that_no_fleet_meets_has_no_size_but_says_how_far_the_largest_came():
    (size,) = sizes_of(replace(SMALL, slo="tpot=1.1s", most_workers=16), 0.5)
    assert size.workers is None
    assert size.slo_share is None
    assert (size.next_smaller.workers, size.next_smaller.slo_share) == (16, 0.0)


def test_a_rate_beyond_all_fleets_needs_no_simulation():
    (size,) = sizes_of(replace(SMALL, most_workers=3), 1.0)
    assert (size.closed_form_workers, size.workers, size.tried) == (None, None, [])


def test_a_fleet_grows_by_whole_groups_with_barriers_of_their_own():
    settings = replace(SMALL, group_size=3)
    (size,) = sizes_of(settings, 1.0)
    assert size.workers % 3 == 0
    assert settings.fleet(6, 2, "timed").groups == [3, 3]


def test_each_number_of_slots_is_tried_with_each_policy_on_the_same_requests():
    settings = replace(SMALL, slots=[1, 2], policies=["jsq", "br-0"])
    found = [(size.slots, size.policy) for size in sizes_of(settings, 0.5)]
    assert found == [(1, "jsq"), (1, "br-0"), (2, "jsq"), (2, "br-0")]
    demand = Demand(settings, LENGTHS, 0.5)
    few, more = demand.trace(100, 0), demand.trace(200, 0)
    assert (few.prompt_tokens == more.prompt_tokens[: len(few)]).all()


def test_arrivals_have_exactly_the_rate():
    trace = Demand(SMALL, LENGTHS, 0.7).trace(2, 1)
    assert len(trace) / trace.arrival_s[-1] == pytest.approx(0.7)


def test_the_price_of_tokens_follows_from_workers_and_rate():
    """Workers at 3 an hour make 5 tokens a second of one request a second."""
    (size,) = sizes_of(replace(SMALL, worker_cost=3.0), 1.0)
    assert size.cost_per_million_tokens == pytest.approx(size.workers * 3.0 / (3600 * 5) * 1e6)


def test_a_step_without_a_time_is_refused():
    settings = replace(SMALL, overhead_s=0.0, per_token_s=0.0)
    with pytest.raises(InputError, match="a step of more than 0 s"):
        sizes_of(settings, 1.0)


def test_two_processes_find_the_same():
    settings = replace(SMALL, policies=["jsq", "fcfs"])
    demand = Demand(settings, LENGTHS, 0.5)
    asked = contenders(settings.policies)
    assert sized(demand, asked, 2, None) == sized(demand, asked, 1, None)


def test_without_a_closed_form_fleets_of_all_sizes_have_the_same_time_in_which_their_queue_grows():
    """The runs of small fleets were shorter, so a quarter of the requests met the objective even with a tenth of the workers."""
    settings = replace(SMALL, law=ALTERNATING, slo="ttft=300s", slots=[16])
    search = Search(Demand(settings, LENGTHS, 6.0), contenders(["jsq"])[0], 16)
    assert search.first is None
    assert [search.tried(workers).slo_share for workers in (1, 2, 4, 40)] == [0.0, 0.0, 0.0, 1.0]


def test_without_a_closed_form_the_search_begins_with_fast_workers_and_runs_are_as_long_as_slow_workers_need():
    """Ten requests hold 120 tokens. A step takes 1 s and 0.01 s a token: twice as long on the slow worker of each two."""
    demand = Demand(replace(SMALL, law=ALTERNATING, slo="ttft=60s"), LENGTHS, 6.0)
    search = Search(demand, contenders(["jsq"])[0], 10)
    fast, slow = (math.ceil(6.0 / (10 / (1 + 0.01 * 120 / speed) / 5)) for speed in (1, 0.5))
    assert (search.near("fastest"), search.near("slowest")) == (fast, slow)
    size = search.size()
    assert size.tried[0].workers >= fast
    assert size.next_smaller.workers == size.workers - 1
    fewer = replace(demand, settings=replace(demand.settings, most_workers=3))
    assert Search(fewer, contenders(["jsq"])[0], 10).near("slowest") == 3


@pytest.mark.parametrize(
    ("speed", "group_size", "workers"),
    [
        ("9*1/0.002", 0, 7),  # 6.0 / (10 / 2.2 / 5) = 6.6: the slow worker is the tenth
        ("1/0.5/1/1", 2, 10),  # steps of 3.4 s and 2.2 s by turns: eight workers serve 5.99 a second
        ("0.002/1", 1, 14),
    ],
)
def test_a_slow_worker_lengthens_runs_only_where_others_wait_for_it(speed, group_size, workers):
    """One in ten at 0.002 of the speed made them as long as 1,024 workers need: minutes, or an error."""
    settings = replace(SMALL, law=f"per-worker:speed={speed},overhead_s=1,per_token_s=0.01", group_size=group_size)
    search = Search(Demand(settings, LENGTHS, 6.0), contenders(["jsq"])[0], 10)
    assert search.near("slowest") == workers


def test_under_a_law_of_the_longest_request_runs_are_as_long_as_the_largest_of_normal_sizes_needs():
    law = "unequal:share=0.5,overhead_s=1,per_token_s=0.01"
    search = Search(Demand(replace(SMALL, law=law), LENGTHS, 6.0), contenders(["jsq"])[0], 10)
    longest = 12 + 2**0.5 * (2 * math.log(10)) ** 0.5
    step_s = 1 + 0.01 * (120 + 0.5 * (10 * longest - 120))
    assert search.near("slowest") == math.ceil(6.0 / (10 / step_s / 5))
    assert search.near("fastest") == math.ceil(6.0 / (10 / (1 + 0.01 * 120) / 5))


@pytest.mark.slow
def test_what_a_fleet_can_serve_does_not_depend_on_the_length_of_the_run():
    """The first requests of an empty fleet are all young, so its first steps are short; they are not measured."""
    settings = replace(SMALL, slots=[50], seeds=2, overhead_s=0.1, share=1e-9)
    lengths = Laws(Synthetic(1, Constant(1), Geometric(mean=100)))
    short, long = (
        Search(Demand(replace(settings, requests=count), lengths, 0.001), contenders(["jsq"])[0], 50).tried(1).requests_per_s
        for count in (1_000, 30_000)
    )
    assert short == pytest.approx(long, rel=0.03)


def test_the_share_that_meets_the_objective_leaves_out_the_filling_of_the_fleet():
    """At twice the capacity the first requests do not wait long; a run that lasted would leave none that met it."""
    settings = replace(SMALL, slo="ttft=60s", share=0.5)
    assert Search(Demand(settings, LENGTHS, 1.0), contenders(["jsq"])[0], 2).tried(2).slo_share == 0.0


def test_more_requests_than_a_run_may_have_are_refused():
    with pytest.raises(InputError, match="slots of all workers is 1000000; expected at most 250,000"):
        Demand(SMALL, LENGTHS, 1.0).trace(1_000_000, 0)


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"slo": "tpot=1.09s"}, 0.0),  # a lone request's first step takes 1.1 s
        ({"slo": "tpot=1.1s"}, 1.0),
        ({"slo": "ttft=1.05s,tpot=9s"}, 0.0),
        ({"slo": "ttft=4s,tpot=2s", "prefill_base_s": 2.0, "prefill_per_token_s": 0.1}, 0.0),  # 3 s of prefill, 1.1 s
        ({"slo": "ttft=4.1s,tpot=2s", "prefill_base_s": 2.0, "prefill_per_token_s": 0.1}, 1.0),
        ({"slo": "tpot=1.5s", "sync_s": "1:0.5/8:0.2"}, 1.0),  # the largest fleet synchronises fastest
        ({"slo": "tpot=1.5s", "sync_s": "1:0.5/8:0.2", "group_size": 1}, 0.0),
    ],
)
def test_an_objective_below_the_step_of_a_lone_request_is_known_without_a_simulation(options, share):
    settings = replace(SMALL, **options, most_workers=8)
    assert Demand(settings, LENGTHS, 0.5).within_reach == share
    if share == 0.0:
        (size,) = sizes_of(settings, 0.5)
        assert (size.workers, size.tried) == (None, [])


def test_workers_of_unequal_speed_have_no_closed_form_and_the_fastest_says_what_is_in_reach():
    """Every second worker is ten times slower; half of the requests were taken for ones that only a slow worker runs."""
    settings = replace(SMALL, law="per-worker:speed=1/0.1,overhead_s=1,per_token_s=0.01", slo="tpot=1.2s", slots=[1])
    demand = Demand(settings, LENGTHS, 0.1)
    assert (demand.within_reach, demand.served(2, 1)) == (1.0, None)
    (size,) = sized(demand, contenders(["jsq"]), 1, None)
    assert (size.workers, size.closed_form_workers) == (1, None)


def test_extreme_values_estimate_what_fcfs_serves():
    """Loads of 10 to 14 tokens, all equally often: 12 on average, and a deviation of the square root of 2."""
    demand = Demand(SMALL, LENGTHS, 1.0)
    assert demand.deviation == pytest.approx(2**0.5)
    heaviest = 24 + 2**0.5 * (2 * 2 * math.log(8)) ** 0.5
    assert demand.served(8, 2, fcfs=True) == pytest.approx(8 * 2 / (1 + 0.01 * heaviest) / 5)
    assert demand.served(1, 2, fcfs=True) == demand.served(1, 2)
    grouped = Demand(replace(SMALL, group_size=2), LENGTHS, 1.0)
    assert grouped.served(8, 2, fcfs=True) > demand.served(8, 2, fcfs=True)
    full = Demand(replace(SMALL, kv_tokens=24.0), LENGTHS, 1.0)
    assert full.served(8, 2, fcfs=True) == full.served(8, 2)


@pytest.mark.parametrize("fcfs", [True, False])
@pytest.mark.parametrize("group_size", [0, 2])
def test_the_closed_form_looks_at_the_fleets_of_all_sizes_at_once(fcfs, group_size):
    """One by one, a hundred thousand took seconds for each policy and number of slots."""
    asked = []

    class Counting:
        def __getattr__(self, name):
            asked.append(name)
            return getattr(law, name)

    demand = Demand(replace(SMALL, group_size=group_size, most_workers=50), LENGTHS, 3.0)
    law = demand.law
    demand.__dict__["law"] = Counting()
    found = demand.least(2, fcfs=fcfs)
    assert asked.count("local_seconds") == 1
    assert found == next(n for n in range(demand.unit, 51, demand.unit) if demand.served(n, 2, fcfs=fcfs) >= 3.0)
    assert Demand(demand.settings, LENGTHS, 1e9).least(2, fcfs=fcfs) is None


def test_the_estimate_for_fcfs_is_close_to_the_simulation():
    settings = replace(SMALL, slots=[16], overhead_s=1.0, per_token_s=0.001, slo="ttft=900s", policies=["fcfs"])
    lengths = Laws(Synthetic(1, Geometric(mean=100), Geometric(mean=50)))
    (size,) = sizes_of(settings, 3.0, lengths)
    assert size.closed_form_workers < size.workers <= size.fcfs_workers <= size.workers + 2
