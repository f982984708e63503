from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.workload.synthetic import laws

GRID = (np.arange(200_000) + 0.5) / 200_000
ALL = [
    laws.Constant(3),
    laws.Uniform(2, 9),
    laws.Choice((1, 5), (1, 3)),
    laws.Lognormal(1.15, mu=6.1, low=4, high=4096),
    laws.Gamma(1.5, 180, high=2000),
    laws.Geometric(7),
    laws.Poisson(6.5),
    laws.Pareto(1.6, mean=500, high=2000),
    laws.ParetoTailed(1.0, 100, 1.5, high=30_000),
    laws.Bimodal(0.85, laws.Uniform(989, 1000), laws.Uniform(1, 988)),
    laws.Capped(laws.Geometric(100), 50),
    laws.Empirical(np.array([1, 4, 9])),
]


@pytest.mark.parametrize("law", ALL, ids=lambda law: type(law).__name__)
@given(u=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_every_law_gives_whole_tokens_from_1_on_for_every_uniform_number(law, u):
    tokens = law.quantile(np.array([0.0, 1 - 2.0**-53, *u]))
    assert tokens.dtype == np.int64
    assert tokens.min() >= max(getattr(law, "low", 1), 1)
    assert tokens.max() <= getattr(law, "high", laws.HIGHEST)


@pytest.mark.parametrize(
    ("law", "mean"),
    [
        (laws.Uniform(2, 9), 5.5),
        (laws.Choice((1, 5), (1, 3)), 4.0),
        (laws.Lognormal(0.5, median=1000), 1000 * np.exp(0.125)),
        (laws.Gamma(1.5, 180), 270.0),
        (laws.Geometric(7), 7.0),
        (laws.Poisson(6.5), 6.5 + np.exp(-6.5)),  # none has 0 tokens
        (laws.Poisson(3000), 3000.0),
        (laws.Pareto(3.0, mean=500), 500.0),
        (laws.Bimodal(0.85, laws.Constant(1000), laws.Constant(100)), 865.0),
    ],
)
def test_means_are_those_of_the_law(law, mean):
    assert law.quantile(GRID).mean() == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (laws.Constant(100), 100.0),
        (laws.Uniform(2, 9), 5.5),
        (laws.Geometric(112), 112.0),
        (laws.Lognormal(2.0, median=100), 100 * np.exp(2.0)),
        (laws.Pareto(1.6, mean=500), 500 - 187.5 * (187.5 / 1e7) ** 0.6 / 0.6),  # what lies beyond the highest is cut
        (laws.Pareto(1.0, minimum=100, high=1_000_000), 100 * (1 + np.log(10_000))),
        (laws.Bimodal(0.9995, laws.Constant(1), laws.Constant(1_000_000)), 500.9995),
        (laws.Bimodal(0.0005, laws.Constant(1_000_000), laws.Constant(1)), 500.9995),
    ],
)
def test_the_mean_counts_long_tails_and_rare_lengths(law, expected):
    assert laws.mean(law) == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize("law", [laws.Lognormal(0.0, median=9.0), laws.ParetoTailed(0.0, 9.0, 2.0)])
def test_a_law_without_spread_gives_its_median_at_the_lowest_number_too(law):
    assert law.quantile(np.array([0.0, 0.5])).tolist() == [9, 9]


def test_what_lies_beyond_an_end_gathers_on_it():
    tokens = laws.Pareto(1.6, mean=500, high=2000).quantile(GRID)
    beyond = (2000 / 187.5) ** -1.6
    assert (tokens == 2000).mean() == pytest.approx(beyond, abs=0.001)


def test_a_pareto_tail_begins_where_the_body_ends_and_falls_with_its_exponent():
    tokens = laws.ParetoTailed(1.0, 1000, 1.5, tail_share=0.1).quantile(GRID)
    assert (np.diff(tokens) >= 0).all()
    start = np.quantile(tokens, 0.9)
    assert (tokens > 2 * start).mean() == pytest.approx(0.1 * 2**-1.5, rel=0.02)


def test_the_body_of_a_pareto_tail_is_the_lognormal_law():
    u = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.89])
    tailed = laws.ParetoTailed(1.0, 1000, 1.5, tail_share=0.1).quantile(u)
    assert tailed.tolist() == laws.Lognormal(1.0, median=1000).quantile(u).tolist()
    assert tailed[3] == 1000


def test_a_poisson_law_has_both_its_ends():
    """At a mean of 3000 a thousandth lies 3.09 deviations of 54.8 from it, and a millionth 4.75."""
    found = laws.Poisson(3000).quantile(np.array([0.001, 0.999, 1 - 1e-6]))
    assert found == pytest.approx([3000 - 169, 3000 + 169, 3000 + 260], abs=6)
    assert laws.Poisson(0.5).quantile(np.array([0.0, 0.6, 0.9, 0.95])).tolist() == [1, 1, 1, 2]


def test_near_cap_puts_85_per_cent_next_to_the_cap():
    tokens = laws.Bimodal(0.85, laws.Uniform(989, 1000), laws.Uniform(1, 988)).quantile(GRID)
    assert (tokens >= 989).mean() == pytest.approx(0.85, abs=1e-4)
    assert np.unique(tokens).tolist() == list(range(1, 1001))


def test_a_fitted_law_resembles_what_it_was_fitted_to():
    drawn = laws.Lognormal(0.8, mu=6.0).quantile(GRID)
    fitted = laws.fitted_lognormal(drawn)
    assert (fitted.mu, fitted.sigma) == pytest.approx((6.0, 0.8), rel=0.01)
    assert np.array_equal(np.unique(laws.Empirical(np.sort(drawn)).quantile(GRID)), np.unique(drawn))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: laws.Constant(0), "tokens"),
        (lambda: laws.Uniform(5, 4), "high"),
        (lambda: laws.Uniform(0, 4), "low"),
        (lambda: laws.Choice(()), "tokens"),
        (lambda: laws.Choice((1, 2), (1.0,)), "weights"),
        (lambda: laws.Lognormal(1.0), "mu"),
        (lambda: laws.Lognormal(1.0, mu=1.0, median=3.0), "mu"),
        (lambda: laws.Lognormal(-1.0, mu=1.0), "sigma"),
        (lambda: laws.Gamma(0.0, 1.0), "shape"),
        (lambda: laws.Gamma(1.0, float("nan")), "scale"),
        (lambda: laws.Geometric(0.5), "mean"),
        (lambda: laws.Pareto(0.9, mean=10), "alpha"),
        (lambda: laws.Pareto(1.5, mean=0.0), "mean"),
        (lambda: laws.Pareto(2.0), "mean"),
        (lambda: laws.Poisson(1e30), "mean"),
        (lambda: laws.Geometric(1e30), "mean"),
        (lambda: laws.Pareto(2.0, minimum=1e300), "minimum"),
        (lambda: laws.Lognormal(1.0, median=1e300), "median"),
        (lambda: laws.Gamma(1.0, 1e300), "scale"),
        (lambda: laws.ParetoTailed(1, 10, 2, tail_share=1.0), "tail_share"),
        (lambda: laws.Bimodal(1.5, laws.Constant(1), laws.Constant(2)), "share"),
        (lambda: laws.Capped(laws.Constant(1), 0), "cap"),
    ],
)
def test_a_parameter_out_of_range_is_named(make, field):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize(
    "law",
    [laws.Pareto(1e-300, minimum=5, high=100), laws.ParetoTailed(500, 80, 2.0), laws.ParetoTailed(5, 80, 1e-5, high=100)],
)
def test_a_tail_that_overflows_is_cut_off_without_a_warning(law):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert law.quantile(GRID).max() == law.high


HEAVY = laws.Pareto(1.0, minimum=9.0)


@pytest.mark.parametrize(
    ("law", "field"),
    [
        (HEAVY, "output.alpha"),
        (laws.ParetoTailed(1.0, 9.0, 0.9), "output.alpha"),
        (laws.Bimodal(0.5, HEAVY, laws.Constant(3)), "output.first.alpha"),
        (laws.Bimodal(0.5, laws.Constant(3), laws.Bimodal(0.9, laws.Constant(3), HEAVY)), "output.second.second.alpha"),
    ],
)
def test_a_law_of_infinite_mean_is_called_so_wherever_it_stands(law, field):
    with pytest.raises(InputError, match="infinite mean") as caught:
        laws.check_mean("w.yaml", law, "output")
    assert caught.value.field == field


@pytest.mark.parametrize(
    "law",
    [
        laws.Pareto(1.0, minimum=9.0, high=4000),
        laws.Pareto(1.01, mean=9.0),
        laws.Capped(HEAVY, 4000),
        laws.Bimodal(0.0, HEAVY, laws.Constant(3)),
        laws.Bimodal(1.0, laws.Constant(3), HEAVY),
    ],
)
def test_a_law_that_is_cut_off_or_never_drawn_has_a_mean(law):
    laws.check_mean("w.yaml", law)


def test_a_mean_that_is_given_to_a_law_without_one_is_refused_as_infinite():
    with pytest.raises(InputError, match=r"alpha is 1\.0; expected a number > 1 .*infinite mean"):
        laws.Pareto(1.0, mean=9.0)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (laws.Choice((1, 1_000_000), (0.9999, 0.0001)), 100.9999),
        (laws.Bimodal(0.5, laws.Choice((1, 1_000_000), (0.9999, 0.0001)), laws.Constant(1)), 50.99995),
        (laws.Capped(laws.Bimodal(0.25, laws.Constant(80), laws.Constant(10)), 40), 17.5),
        (laws.Capped(laws.Choice((1, 9)), 5), 3.0),
        (laws.Bimodal(1.0, laws.Constant(7), laws.Pareto(1.0, minimum=1)), 7.0),
    ],
)
def test_the_mean_of_a_mixture_is_that_of_its_parts(law, expected):
    assert laws.mean(law) == pytest.approx(expected)
    if isinstance(law, laws.Bimodal) and law.share < 1:  # the tail of the first part lies in the middle of the mixture
        swapped = laws.Bimodal(1 - law.share, law.second, law.first)
        assert laws.mean(swapped) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0, 0.0, 1, 1.0])
def test_a_mixture_may_be_all_one_law(share):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in ALL:
            mixed = laws.Bimodal(share, laws.Constant(5), other) if share else laws.Bimodal(share, other, laws.Constant(5))
            assert (mixed.quantile(np.array([0.0, 0.5, 1 - 2.0**-53])) == 5).all()
