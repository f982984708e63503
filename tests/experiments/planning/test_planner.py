"""What ``evenstep plan`` answers."""

import pytest

from evenstep.config.layers import Layer, settle
from evenstep.errors import InputError
from evenstep.experiments.planning.planner import answer
from evenstep.experiments.planning.settings import PlanSettings, checked

SMALL = {"slo": "tpot=2s", "overhead_s": 1.0, "per_token_s": 0.01, "slots": [2], "requests": 1_000, "seeds": 1}


def test_the_least_fleet_is_the_one_with_the_fewest_workers_and_of_equals_the_one_that_serves_most():
    found = answer(PlanSettings("10/5", rate=1.0, policies=["jsq"], **{**SMALL, "slots": [1, 2]}), 1)
    assert found.arrivals == "lengths by the laws 10/5, Poisson arrivals"
    assert (found.rate, found.tokens_per_s, found.share) == (1.0, 5.0, 0.95)
    assert found.smallest == 1
    tied = answer(PlanSettings("10/geometric:mean=9", rate=0.4, policies=["random", "jsq"], **SMALL), 1)
    by_size = [(size.workers, -size.requests_per_s) for size in tied.sizes]
    assert tied.smallest == by_size.index(min(by_size))


def test_without_a_fleet_that_is_enough_there_is_no_smallest():
    assert answer(PlanSettings("10/5", rate=1.0, policies=["jsq"], most_workers=2, **SMALL), 1).smallest is None


def test_a_trace_brings_its_own_rate():
    found = answer(PlanSettings("sample:azure-conv", policies=["jsq"], **{**SMALL, "slo": "tpot=900s"}), 1)
    assert found.rate > 1
    assert found.arrivals.startswith("the 3,000 rows")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": None}, "--rate is 'missing'; expected requests a second. 10/5 has no rate of its own."),
        ({"rate": 0.0}, "--rate is 0.0"),
        ({"source": ""}, "FILE is 'missing'"),
        ({"policies": ["nosuch"]}, "name is 'nosuch'"),
        ({"policies": ["jsq", "jsq"]}, "each policy once"),
        ({"slo": "speed=1"}, "key is 'speed'"),
    ],
)
def test_what_cannot_be_planned_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        answer(PlanSettings(**{"source": "10/5", "rate": 1.0, "policies": ["jsq"], **SMALL, **options}), 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"slo": ""}, "--slo is 'missing'"),
        ({"share": 0.0}, "--share is 0.0; expected a share above 0 and at most 1"),
        ({"slots": [8, 0]}, "--slots is .*; expected integers >= 1"),
        ({"slots": [8, 8]}, "--slots is .*; expected each number once"),
        ({"requests": 999}, "--requests is 999"),
        ({"requests": 10**8}, "--requests is 100000000; expected an integer of at most 10000000"),
        ({"most_workers": 10**6}, "--most-workers is 1000000"),
        ({"group_size": 2000}, "--group-size is 2000; expected an integer of at most 1024"),
        ({"worker_cost": 0.0}, "--worker-cost is 0.0; expected a finite number > 0"),
        ({"kv_tokens": -1.0}, "--kv-tokens is -1.0"),
    ],
)
def test_a_number_out_of_range_is_named_as_it_was_written(options, said):
    with pytest.raises(InputError, match=said):
        checked(settle(PlanSettings, Layer("command line", {"slo": "tpot=1s", **options})))


@pytest.mark.slow
def test_our_policy_needs_fewer_workers_than_join_shortest_queue_as_the_readme_says():
    settings = PlanSettings("sample:azure-conv", rate=1000, slo="ttft=2s,tpot=50ms", policies=["jsq", "best"], seeds=1)
    found = answer(settings)
    assert [size.workers for size in found.sizes] == [59, 54]
    assert found.sizes[1].closed_form_workers == 54
