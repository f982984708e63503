from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.synthetic import arrivals

N = 40_000
RANDOM = [
    arrivals.Poisson(5),
    arrivals.Gamma(5, 3),
    arrivals.OnOff(20, 1, 3, 0.5),
    arrivals.Diurnal(5, 1.8, 100),
    arrivals.LikeTrace(np.array([0.1, 0.5, 0.0, 2.0]), 5),
]


@pytest.mark.parametrize("process", RANDOM, ids=lambda p: type(p).__name__)
def test_times_begin_at_0_ascend_and_depend_on_their_key_alone(process):
    times = process.times(500, 3, 1)
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()
    assert np.array_equal(times, process.times(500, 3, 1))
    assert not np.array_equal(times, process.times(500, 3, 2))
    assert process.times(1, 3, 1).tolist() == [0.0]


@pytest.mark.parametrize("process", RANDOM, ids=lambda p: type(p).__name__)
def test_a_longer_draw_begins_with_the_shorter_one(process):
    assert np.array_equal(process.times(500, 3, 0)[:100], process.times(100, 3, 0))


@pytest.mark.parametrize(
    ("process", "rate", "cv"),
    [(arrivals.Poisson(5), 5, 1), (arrivals.Gamma(5, 3), 5, 3), (arrivals.Gamma(5, 0.5), 5, 0.5)],
)
def test_rate_and_cv_are_those_asked_for(process, rate, cv):
    gaps = np.diff(process.times(N, 0, 0))
    assert 1 / gaps.mean() == pytest.approx(rate, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_on_off_is_silent_between_its_bursts_and_keeps_its_rates():
    times = arrivals.OnOff(50, 10, 30).times(N, 0, 0)
    gaps = np.diff(times)
    pauses = gaps[gaps > 1]
    assert pauses.mean() == pytest.approx(30, rel=0.5)
    assert 1 / gaps[gaps < 1].mean() == pytest.approx(50, rel=0.05)
    mean = arrivals.OnOff(50, 1, 3, 10).times(N, 0, 0)
    assert N / mean[-1] == pytest.approx((50 * 1 + 10 * 3) / 4, rel=0.1)


def test_a_diurnal_period_may_be_far_shorter_than_the_gaps():
    """The rate over all periods took a terabyte."""
    gaps = np.diff(arrivals.Diurnal(1e-3, 1.8, 0.01).times(1000, 0, 0))
    assert gaps.mean() == pytest.approx(1000.0, rel=0.1)
    assert np.sort(gaps)[500] == pytest.approx(1000.0 * np.log(2), rel=0.1)


@pytest.mark.parametrize("period_s", [3e-14, 1e-308])
def test_a_diurnal_period_of_no_length_beside_the_gaps_is_refused(period_s):
    with pytest.raises(InputError, match="period_s is .*; expected a period that is not so far below the mean gap"):
        arrivals.Diurnal(1.0, 1.8, period_s).times(100, 0, 0)


def test_diurnal_peaks_where_and_as_high_as_asked():
    times = arrivals.Diurnal(50, 1.8, 100, 25).times(N, 0, 0)
    counts, _ = np.histogram(times % 100, bins=10)
    assert N / times[-1] == pytest.approx(50, rel=0.03)
    assert counts.argmax() == 2 and counts.argmin() == 7
    assert counts.max() / counts.mean() == pytest.approx(1.8, rel=0.08)


@pytest.mark.parametrize(
    ("process", "rate"),
    [
        (arrivals.OnOff(20, 1, 3, 0.4), 5.3),
        (arrivals.LikeTrace(np.array([0.1, 0.3, 0.2])), 5.0),
        (arrivals.Gamma(5, 2), 5.0),
    ],
)
def test_the_mean_rate_is_that_of_a_long_run(process, rate):
    assert arrivals.mean_rate(process) == pytest.approx(rate)
    assert (N - 1) / process.times(N, 0, 0)[-1] == pytest.approx(rate, rel=0.05)


def test_a_process_without_times_has_no_rate():
    assert arrivals.mean_rate(arrivals.AtOnce()) == arrivals.mean_rate(arrivals.Saturated()) == 0.0


def test_like_trace_begins_with_the_traces_own_gaps_and_wraps():
    process = arrivals.LikeTrace(np.array([1.0, 2.0, 3.0]))
    assert process.times(6, 0, 0).tolist() == [0, 1, 3, 6, 7, 9]
    assert 999 / arrivals.LikeTrace(np.array([1.0, 2.0, 3.0]), 8).times(1000, 0, 0)[-1] == pytest.approx(8)


def test_without_times_and_all_at_once():
    assert arrivals.Saturated().times(5, 0, 0) is None
    assert arrivals.AtOnce().times(3, 0, 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: arrivals.Poisson(0),
        lambda: arrivals.Poisson(float("nan")),
        lambda: arrivals.Gamma(1, -1),
        lambda: arrivals.OnOff(1, 0, 1),
        lambda: arrivals.OnOff(1, 1, 1, -1),
        lambda: arrivals.Diurnal(1, 2.5),
        lambda: arrivals.LikeTrace(np.zeros(3)),
        lambda: arrivals.LikeTrace(np.ones(3), 0.0),
    ],
)
def test_a_parameter_out_of_range_is_an_error(make):
    with pytest.raises(InputError):
        make()
