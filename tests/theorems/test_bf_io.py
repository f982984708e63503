"""BF-IO sec. 5.1: when all outputs are equal, every round is a partition problem, and its optimum is s_max-balanced."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.bf_io_objective import objective
from tests.routing._routed import moment
from tests.strategies import examples

from evenstep.routing.bf_io.exact import Instance, solve
from evenstep.routing.policies.bf_io import BFIO


@st.composite
def rounds(draw: st.DrawFn) -> Instance:
    """An empty fleet of G workers with B slots, and at least G * B requests waiting."""
    workers, slots = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    count = workers * slots
    sizes = draw(st.lists(st.integers(1, 50), min_size=count, max_size=count + 6))
    size = np.array(sizes, np.float64)
    return Instance(
        np.zeros(workers, np.int64),
        np.full(workers, slots),
        np.full(workers, np.inf),
        np.zeros((workers, 1)),
        size[:, None],
        size,
        np.ones(1),
        0,
        count,
    )


@examples(30, fast=8)
@given(rounds())
def test_an_exact_round_is_balanced_up_to_the_largest_prompt(asked: Instance) -> None:
    worker, _ = solve(asked)
    load = np.bincount(worker[worker >= 0], asked.size[worker >= 0], minlength=asked.group.size)
    assert load.max() - load.min() <= asked.size.max()
    assert objective(asked, worker) <= (asked.group.size - 1) * asked.size.max()


@given(rounds())
def test_the_fast_round_keeps_the_bound_on_the_imbalance(asked: Instance) -> None:
    view = moment(asked.load[:, 0].tolist(), asked.free_slots.tolist(), asked.size.tolist(), mean_wait_s=0.0)
    worker = BFIO().route(view).worker
    assert objective(asked, worker) <= (asked.group.size - 1) * asked.size.max()
