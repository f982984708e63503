"""Class first, by its promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from tests.strategies import engine_views

from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.policies.class_first import ClassFirst
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine


@given(engine_views())
def test_a_later_class_runs_only_what_the_earlier_ones_leave(view):
    decision = ClassFirst().form_batch(view)
    ran = decision.tokens > 0
    if not ran.any() or decision.evict.any():
        return
    last = view.request_class[ran].max()
    starved = view.running & ~ran & (view.request_class < last)
    assert not starved.any()


def test_one_class_is_sarathi():
    rng = np.random.default_rng(1)
    trace = Trace(rng.integers(1, 300, 200), rng.integers(1, 60, 200), np.sort(rng.random(200) * 100))
    runs = [
        simulate_engine(trace, one, engine=Engine(token_budget=256), batch_time=Unit()) for one in (ClassFirst(), Sarathi())
    ]
    assert runs[0].digest == runs[1].digest


def test_a_class_waits_for_the_ones_before_it_and_keeps_what_it_holds():
    trace = Trace(np.array([100, 100]), np.array([50, 1]), np.array([0.0, 10.0]), request_class=np.array([1, 0]))
    engine = Engine(token_budget=10, first_token="decode")
    run = simulate_engine(trace, ClassFirst(), engine=engine, batch_time=Unit())
    table = run.requests
    assert table.finished_s[1] == 21.0  # ten iterations of its prefill and a decode, from its arrival on
    assert table.wasted_tokens.tolist() == [0, 0] and table.evictions.tolist() == [0, 0]
    assert table.finished_s[0] > 60 and table.scheduled_s[0] == 0.0
