"""The engine's state."""

from evenstep.scheduling.view import UNLIMITED
from evenstep.sim.engine.layout import EngineState, limited


def test_no_limit_is_a_number_no_run_reaches():
    assert limited(0) == UNLIMITED and limited(7) == 7


def test_an_empty_state_has_a_column_a_request():
    state = EngineState.empty(5, 2)
    assert state.rows.shape[1] == state.hidden.shape[1] == state.times.shape[1] == state.running.size == 5
    assert state.arrived.size == 2
