"""Verdicts on paths whose answer is known."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.measure.comparison import Interval
from evenstep.measure.stability import Stability, in_system, judged, moments_of, stability, tokens_arrived, work_left
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.sim.engine.simulation import Engine, simulate_engine


def single_server(rate, requests=4000, seed=1, **options):
    """Requests of one iteration of 0.01 s each, one at a time: a queue that keeps up with less than 100 a second."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, requests)
    trace = Trace(np.ones(requests, np.int64), np.ones(requests, np.int64), arrival_s=np.cumsum(gaps))
    engine = Engine(batch_limit=1)
    return simulate_engine(trace, Sarathi(), engine=engine, batch_time=Unit(seconds_each=0.01), **options)


@pytest.mark.parametrize(("rate", "verdict"), [(70.0, "stable"), (130.0, "unstable")])
def test_a_queue_below_and_above_what_it_can_serve(rate, verdict):
    found = stability(single_server(rate))
    assert found.verdict == verdict
    assert found.arrivals_per_s == pytest.approx(rate, rel=0.1)


def test_an_overloaded_queue_grows_by_what_it_cannot_serve():
    found = stability(single_server(150.0, requests=20_000))
    assert found.drift.low is not None and found.drift.high is not None
    assert found.drift.low < found.arrivals_per_s - 100 < found.drift.high


@pytest.mark.parametrize(("unit", "drift", "come"), [("requests", 50.0, 100.0), ("tokens", 200.0, 400.0)])
def test_a_queue_that_serves_half_of_what_comes_grows_by_the_other_half(unit, drift, come):
    """A request of 3 prompt and 2 output tokens is 4 tokens in two iterations of 0.01 s; one comes each 0.01 s."""
    trace = Trace(np.full(4000, 3), np.full(4000, 2), arrival_s=0.01 * np.arange(1, 4001))
    run = simulate_engine(trace, Sarathi(), engine=Engine(batch_limit=1), batch_time=Unit(seconds_each=0.01))
    found = stability(run, unit=unit)
    assert found.verdict == "unstable"
    assert (found.drift.value, found.arrivals_per_s) == (pytest.approx(drift, rel=0.01), pytest.approx(come, rel=0.01))
    assert found.served_per_s == pytest.approx(come - drift, rel=0.01)


def test_the_second_half_of_the_time_is_judged_without_its_end():
    times = moments_of(8.0)
    assert (times.size, times[0], times[-1]) == (1000, 4.0, pytest.approx(8.0 - 4.0 / 1000))


def test_the_interval_of_a_drift_is_students_over_nine_differences_and_wider_by_the_root_of_three_halves():
    """Five differences of 1 and four of -1: their deviation is sqrt(10 / 9), and Student's t with 8 degrees 2.306."""
    found = judged(np.repeat([0.0, 1.0] * 5, 100), 20.0, 1000.0)  # stretches of a second
    half = 2.306004 * np.sqrt(10 / 9) / 3 * np.sqrt(1.5)
    assert (found.drift.value, found.drift.low, found.drift.high) == pytest.approx((1 / 9, 1 / 9 - half, 1 / 9 + half))
    assert found.verdict == "stable"  # 1.1 is less than a hundredth of 1000


@pytest.mark.parametrize(("tolerance", "verdict"), [(0.51, "stable"), (0.5, "undecided"), (0.49, "unstable")])
def test_a_drift_at_the_tolerated_share_is_undecided(tolerance, verdict):
    assert judged(np.repeat(np.arange(10.0), 100), 20.0, 2.0, tolerance).verdict == verdict


def test_a_short_run_near_the_limit_is_undecided():
    assert stability(single_server(97.0, requests=600)).verdict == "undecided"


def test_a_run_that_was_stopped_is_judged_up_to_there():
    assert stability(single_server(130.0, requests=9000, until_s=40.0)).verdict == "unstable"


def test_those_in_the_engine_are_counted_at_any_time():
    trace = Trace(np.array([1, 1, 1]), np.array([1, 1, 1]), arrival_s=np.array([0.0, 0.5, 9.0]))
    run = simulate_engine(trace, Sarathi(), batch_time=Unit())
    times = np.array([0.1, 0.7, 1.1, 5.0, 9.5])
    assert in_system(trace.arrival_s, np.sort(run.requests.finished_s), times).tolist() == [1, 2, 1, 0, 1]


def test_a_request_that_an_idle_engine_holds_is_counted():
    """`wait` holds the first request until the second comes at 3 s; until then no iteration runs."""
    trace = Trace(np.array([1, 1]), np.array([1, 1]), arrival_s=np.array([0.5, 3.0]))
    run = simulate_engine(trace, Wait((2,), 10.0), batch_time=Unit())
    times = np.array([0.0, 1.0, 2.9, 3.5, 9.0])
    assert in_system(trace.arrival_s, np.sort(run.requests.finished_s), times).tolist() == [0, 1, 1, 2, 0]


def test_what_cannot_be_judged_is_said():
    with pytest.raises(InputError, match="without records"):
        stability(single_server(50.0, requests=50, records=False))
    with pytest.raises(InputError, match="arrivals over time"):
        stability(simulate_engine(Trace(np.array([1]), np.array([1])), Sarathi()))
    for tolerance in (0.0, 1.0):
        with pytest.raises(InputError, match=f"tolerance is {tolerance}"):
            stability(single_server(50.0, requests=50), tolerance=tolerance)


def test_tokens_left_fall_evenly_over_an_iteration():
    """Three requests of 2 tokens (prompt and decode), the last one at 10 s; one token a second. Times count arrivals at them."""
    trace = Trace(np.array([1, 1, 1]), np.array([1, 1, 1]), arrival_s=np.array([1.0, 1.5, 10.0]))
    run = simulate_engine(trace, Sarathi(), batch_time=Unit(), engine=Engine(first_token="decode", token_budget=1))
    times = np.array([0.5, 1.25, 1.5, 1.75, 5.0, 10.5, 20.0])
    assert tokens_arrived(run, times).tolist() == [0, 2, 4, 4, 4, 6, 6]
    assert work_left(run, times).tolist() == [0, 1.75, 3.5, 3.25, 0, 1.5, 0]


def test_a_verdict_as_text_says_why_and_what_settles_it():
    """An interval of -1 to 2 around half a request a second cannot tell."""
    open_one = str(Stability("undecided", Interval(0.5, -1.0, 2.0), 10.0))
    assert open_one == (
        "undecided: 10 arrive a second, and the number in the system changes by 0.5 a second (95 % interval -1 to 2);"
        " the interval is too wide to tell, and a longer run narrows it"
    )
    clear = Stability("unstable", Interval(5.0, 4.5, 5.5), 10.0)
    grows = "10 arrive a second, and the number in the system changes by 5 a second (95 % interval 4.5 to 5.5)"
    assert str(clear) == f"unstable: {grows}" and repr(clear) == f"<unstable: {grows}>"
    drained = judged(np.arange(1000.0, 0.0, -1.0), 20.0, 0.0)
    assert str(drained) == (
        "stable: 0 arrive a second, and the number in the system changes by -100 a second (95 % interval -100 to -100)"
    )
    nothing = judged(np.zeros(1000), 20.0, 0.0)
    assert str(nothing) == "undecided: nothing arrived in the time that is judged; a longer run may tell"


@pytest.mark.slow
def test_tokens_show_an_overload_that_shortest_first_hides_from_a_count_of_requests():
    """A tenth of the requests brings most of the work, and an overload leaves only such requests waiting."""
    generator = np.random.default_rng(2)
    output = np.where(generator.random(40_000) < 0.1, 40, 2)
    rate = 1.1 / (output.mean() + 1)
    trace = Trace(np.ones_like(output), output, arrival_s=np.cumsum(generator.exponential(1 / rate, output.size)))
    engine = Engine(token_budget=1, batch_limit=0, first_token="decode")
    policy = WorkConserving(first="prefill", within="fewest-left")
    run = simulate_engine(
        trace, policy, engine=engine, batch_time=Unit(), bounds=(output, output), until_s=float(trace.arrival_s[-1])
    )
    tokens, requests = (stability(run, unit=unit) for unit in ("tokens", "requests"))
    assert tokens.verdict == "unstable"
    assert requests.verdict == "undecided"
    assert 4 * requests.drift.value / requests.arrivals_per_s < tokens.drift.value / tokens.arrivals_per_s
