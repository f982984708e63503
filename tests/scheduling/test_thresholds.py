"""The least thresholds of gates: as the theory solves them, with the conditions they are for, compiled alike."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenstep.compiled import as_plain, jit
from evenstep.errors import InputError
from evenstep.scheduling.gates.thresholds import FOUND, NO_ROOM, OVERLOAD, Demand, arriving_work, least
from evenstep.theory import nested_thresholds, wait_thresholds
from evenstep.theory.fluid import Types

PLAIN = as_plain(least)


@jit
def compiled_least(rates, go_on, work, d0_s, d1_s, kv_tokens, slack, found):
    return least(Demand(rates, go_on, work), d0_s, d1_s, kv_tokens, slack, found)


def solved_compiled(demand, *numbers):
    return compiled_least(*demand, *numbers)


@dataclass(frozen=True)
class Case:
    """What arrives, and the engine."""

    demand: Demand
    d0_s: float
    d1_s: float
    kv_tokens: int

    def solved(self, slack, solve=PLAIN):
        """What came of it, and the thresholds."""
        found = np.ones(self.demand.work.size, np.int64)
        return solve(self.demand, self.d0_s, self.d1_s, self.kv_tokens, slack, found), found


@st.composite
def demands(draw, load=(0.05, 1.2)):
    """What arrives at one to three groups of one to four segments, at some load; sometimes nothing, or nobody goes on."""
    groups, segments = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    gates = groups * segments

    def numbers(low, high, count):
        return np.array(draw(st.lists(st.floats(low, high), min_size=count, max_size=count)))

    rates, share, work = numbers(0, 40, groups), numbers(0, 1, gates), numbers(0, 5000, gates)
    demand, d0_s, kv_tokens = (
        Demand(rates, share, work),
        draw(st.floats(0.001, 0.1)),
        draw(st.integers(1, 10**7)),
    )
    arriving = as_plain(arriving_work)(demand)
    d1_s = draw(st.floats(*load)) / arriving if arriving > 1e-6 else 0.0
    return Case(demand, d0_s, d1_s, kv_tokens)


@pytest.mark.slow
@settings(max_examples=200)
@given(demands(), st.sampled_from([0.0, 0.5, 2.0]))
def test_the_compiled_solver_equals_the_plain_one_to_the_last_bit(case, slack):
    code, found = case.solved(slack, solved_compiled)
    plain_code, wanted = case.solved(slack)
    assert code == plain_code
    assert found.tolist() == wanted.tolist()


@given(demands(), st.sampled_from([0.0, 1.0]))
def test_what_is_found_keeps_the_conditions_and_what_is_refused_has_its_reason(case, slack):
    demand = case.demand
    code, found = case.solved(slack)
    held = float(np.dot(found, demand.work))
    if code == OVERLOAD:
        assert case.d1_s * as_plain(arriving_work)(demand) >= 1 - 1e-9 or held > 0
        return
    if code == NO_ROOM:
        assert held > case.kv_tokens * (1 - 1e-12)
        return
    assert code == FOUND and held <= case.kv_tokens * (1 + 1e-12)
    seconds = case.d0_s + case.d1_s * held
    n = found.reshape(demand.arrivals_per_s.size, -1)
    share = demand.go_on.reshape(n.shape)
    assert (demand.arrivals_per_s * seconds < n[:, 0] * (1 + 1e-12)).all()
    assert (n[:, 1:] > share[:, :-1] * n[:, :-1] * (1 - 1e-12)).all()


@given(
    st.lists(st.tuples(st.floats(0.5, 20), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=4),
    st.floats(0.05, 0.95),
)
def test_known_types_get_the_thresholds_of_the_theory(numbers, load):
    rates, prompt, output = (np.array(column, float) for column in zip(*numbers, strict=True))
    work = Types(rates, prompt, output, 1.0, 0.0).work
    types = Types(rates, prompt, output, 0.1, load / float(np.dot(rates, work)))
    case = Case(Demand(rates, np.zeros(rates.size), np.array(work)), 0.1, types.d1_s, 1 << 40)
    code, found = case.solved(0.0)
    assert code == FOUND
    theirs = wait_thresholds.least(types)
    assume(_is_far_from_a_step(rates * theirs.iteration_s))
    assert found.tolist() == theirs.thresholds.tolist()


@given(
    st.lists(st.floats(1, 50), min_size=2, max_size=5),
    st.floats(0.05, 0.9),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
)
def test_segments_get_the_thresholds_of_the_theory(rates, load, kappa):
    outputs, prompts = [10 * (k + 1) for k in range(len(rates))], [20] * len(rates)
    d1_s = load / Types(rates, prompts, outputs, 1.0, 1.0).load
    types = Types(rates, prompts, outputs, 0.01, d1_s)
    share = [*nested_thresholds.go_on(rates).tolist(), 0.0]
    demand = Demand(np.array([sum(rates)]), np.array(share), nested_thresholds.segment_work(types))
    code, found = Case(demand, 0.01, d1_s, 1 << 40).solved(kappa)
    try:
        theirs = nested_thresholds.with_slack(types, kappa, iterations=1e6, delta=0.01)
    except InputError:
        assert code == OVERLOAD
        return
    assume(_is_far_from_a_step(np.array([sum(rates) * theirs.iteration_s])))
    assert code == FOUND and found.tolist() == theirs.thresholds.tolist()


def _is_far_from_a_step(values):
    """Whether rounding a sum in another order cannot change a whole part."""
    return bool((np.abs(values - np.round(values)) > 1e-7).all())
