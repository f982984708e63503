"""The largest rate that keeps up, where it is known."""

import math

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.experiments import frontier
from evenstep.experiments.frontier import Bisection, Bracket, Case, Rates, largest_rates, unit_of, work_through
from evenstep.experiments.lengths import Rows, alike
from evenstep.measure.comparison import Interval
from evenstep.sim.engine.simulation import Engine

#: An iteration of 4 tokens a second, requests of 3 + 5 tokens: half a request a second.
ENGINE = Engine(token_budget=4, batch_limit=0, first_token="decode")


def case(policy="sarathi", engine=ENGINE, lengths=None):
    return Case(policy, Unit(), engine, lengths or alike(3, 5))


@pytest.mark.slow
def test_the_limit_of_a_policy_that_fills_every_batch_is_found_from_afar():
    searches = [Bisection(case(), guess, 4_000, 0.02, 0, r).search for guess in (0.2, 1.7) for r in (0, 1)]
    assert [one.served for one in work_through(searches, 1)] == pytest.approx([0.5] * 4, rel=0.01)


def test_what_an_overload_serves_is_no_limit_where_a_run_just_below_it_does_not_keep_up():
    """Full batches serve b / t_b in any overload. An engine that is left with work at 0.99 of it has a lower limit."""

    class FailsFrom90(Bisection):
        def _keeps_up(self, rate):
            return rate < 0.9 * 0.5

        def _left_below(self, rate):
            return max(0.0, 1.0 - 0.9 * 0.5 / (0.99 * rate))

    found = FailsFrom90(case(), 0.5, 4_000, 0.02, 0, 0).search()
    assert found.served is None
    assert found.middle == pytest.approx(0.45, rel=0.01)


def test_replicates_of_one_case_are_measured_in_one_way(monkeypatch):
    ends = iter([Bracket(0.4, 0.6, 0.51), Bracket(0.4, 0.5), Bracket(0.4, 0.6, 0.51), Bracket(0.4, 0.6, 0.52)])
    monkeypatch.setattr(frontier, "work_through", lambda jobs, processes: [next(ends) for _ in jobs])
    found = largest_rates({"mixed": case(), "served": case()}, 4_000, 0.02, 0, 2)
    assert {name: one.each for name, one in found.items()} == {"mixed": [0.5, 0.45], "served": [0.51, 0.52]}


def test_replicates_that_end_in_one_bracket_are_known_to_its_width_only():
    """Their spread is 0, and the rate may be anywhere in the bracket."""
    assert Rates([25.0, 25.0, 25.0], 0.1).interval() == Interval(25.0, 24.9, 25.1)
    assert Rates([25.0], 0.1).interval() == Interval(25.0, None, None)


def test_an_engine_that_keeps_up_with_every_rate_has_no_interval():
    assert Rates([math.inf, math.inf], 0.0).interval() == Interval(math.inf, None, None)


def test_a_bracket_that_never_closed_has_no_width(monkeypatch):
    monkeypatch.setattr(frontier, "work_through", lambda jobs, processes: [Bracket(math.inf, math.inf), Bracket(0.4, 0.6)])
    assert largest_rates({"mixed": case()}, 4_000, 0.02, 0, 2)["mixed"].within == pytest.approx(0.1)


def test_rates_are_of_the_sample_where_lengths_differ():
    lengths = Rows(np.array([1, 5]), np.array([5, 5]), "two.csv")
    assert case(lengths=lengths).size == pytest.approx(8.0, rel=0.01)
    found = Bisection(case(lengths=lengths), 0.5, 4_000, 0.02, 0, 0).search()
    assert found.served == pytest.approx(0.5, rel=0.015)


def test_an_overload_is_not_hidden_by_tokens_that_evictions_for_a_seat_had_computed_again():
    """Two seats serve at most 2 requests in 6 iterations of a second. The rest was run in vain, and counted as done."""
    one = case("least-attained:makes_room=true", Engine(token_budget=64, batch_limit=2, first_token="decode"))
    run = one.run(0.6, 1_000, 0, 0)
    assert run.totals.evictions > 0 and unit_of(run) == "requests"
    assert one.verdict(0.6, 1_000, 0, 0).verdict == "unstable"


def test_with_memory_requests_are_counted_and_the_limit_is_lower():
    tight = Engine(token_budget=4, batch_limit=0, kv_tokens=16, first_token="decode")
    assert unit_of(case(engine=tight).run(0.5, 1_000, 0, 0)) == "requests"
    found = Bisection(case(engine=tight), 0.5, 4_000, 0.02, 0, 0).search()
    assert 0.2 < found.low < found.high < 0.45


def test_a_first_token_of_the_prefill_saves_a_decode():
    early = Engine(token_budget=4, batch_limit=0)
    assert case(engine=early).size == 7.0
    assert case(engine=early).closed.requests_per_s == pytest.approx(4 / 7)


def test_a_guess_is_measured_where_no_formula_bounds_the_rate():
    from evenstep.cost.affine_kv import AffineKv

    one = Case("sarathi", AffineKv(), ENGINE, alike(3, 5))
    assert one.closed.at_most is None
    assert 0 < one.guess() < 1e3


def test_a_limit_far_below_the_bound_of_all_policies_is_found():
    """Without a token budget any batch takes a second, so the bound is 2 million requests a second; the one seat serves 0.2."""
    one = case("best", Engine(token_budget=0, batch_limit=1))
    assert one.guess() > 1e6
    assert Bisection(one, one.guess(), 1_000, 0.02, 0, 0).search().middle == pytest.approx(0.2, rel=0.03)
