"""The largest rate that keeps up, where it is known."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.experiments.frontier import Bisection, Case, Rows, alike, work_through
from evenstep.sim.engine.simulation import Engine

#: An iteration of 4 tokens a second, requests of 3 + 5 tokens: half a request a second.
ENGINE = Engine(token_budget=4, batch_limit=0, first_token="decode")


def case(policy="sarathi", engine=ENGINE, lengths=None):
    return Case(policy, Unit(), engine, lengths or alike(3, 5))


def test_the_limit_of_a_policy_that_fills_every_batch_is_found_from_afar():
    jobs = [Bisection(case(), guess, 4_000, 0.02, 0, r) for guess in (0.2, 1.7) for r in (0, 1)]
    assert work_through(jobs, 1) == pytest.approx([0.5] * 4, rel=0.01)


def test_rates_are_of_the_sample_where_lengths_differ():
    lengths = Rows(np.array([1, 5]), np.array([5, 5]))
    assert case(lengths=lengths).size == pytest.approx(8.0, rel=0.01)
    found = Bisection(case(lengths=lengths), 0.5, 4_000, 0.02, 0, 0).carry_out()
    assert found == pytest.approx(0.5, rel=0.015)


def test_with_memory_requests_are_counted_and_the_limit_is_lower():
    tight = Engine(token_budget=4, batch_limit=0, kv_tokens=16, first_token="decode")
    assert (case(engine=tight).unit, case(engine=tight).size) == ("requests", 1.0)
    found = Bisection(case(engine=tight), 0.5, 4_000, 0.02, 0, 0).carry_out()
    assert 0.2 < found < 0.45


def test_a_first_token_of_the_prefill_saves_a_decode():
    early = Engine(token_budget=4, batch_limit=0)
    assert case(engine=early).size == 7.0
    assert case(engine=early).closed.requests_per_s == pytest.approx(4 / 7)


def test_a_guess_is_measured_where_no_formula_bounds_the_rate():
    from evenstep.cost.affine_kv import AffineKv

    one = Case("sarathi", AffineKv(), ENGINE, alike(3, 5))
    assert one.closed.at_most is None
    assert 0 < one.guess() < 1e3
