"""Verdicts on paths whose answer is known."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.measure.stability import in_system, stability, tokens_arrived, work_left
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
    with pytest.raises(InputError, match="tolerance is 1.0"):
        stability(single_server(50.0, requests=50), tolerance=1.0)


def test_tokens_left_fall_evenly_over_an_iteration():
    """Three requests of 2 tokens (prompt and decode), the last iteration at 9 s; one token a second."""
    trace = Trace(np.array([1, 1, 1]), np.array([1, 1, 1]), arrival_s=np.array([0.0, 0.5, 9.0]))
    run = simulate_engine(trace, Sarathi(), batch_time=Unit(), engine=Engine(first_token="decode", token_budget=1))
    times = np.array([0.25, 0.75, 4.0, 9.5, 20.0])
    assert tokens_arrived(run, times).tolist() == [2, 4, 4, 6, 6]
    assert work_left(run, times).tolist() == [1.75, 3.25, 0, 1.5, 0]


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
