"""Free memory that still holds KV: what comes back, what is overwritten first, and both ways alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.view import PREFILLED, RESIDENT
from evenstep.sim.engine import kept as kept_kernel
from evenstep.sim.engine import kept_reference
from evenstep.sim.engine import layout as at
from evenstep.sim.engine.layout import EngineState
from evenstep.sim.engine.simulation import Engine, simulate_engine


def state(requests=4, unused=2, block=10):
    found = EngineState.empty(requests, 1)
    found.numbers_i[at.BLOCK], found.state_i[at.UNUSED] = block, unused
    return found


def test_unused_memory_goes_first_then_the_oldest_from_its_end():
    s = state()
    for row, blocks in ((1, 3), (0, 2)):
        s.rows[PREFILLED, row] = blocks * 10
        kept_reference.leave(s, row, blocks)
    assert kept_reference.overwrite(s, 3) == [1]
    assert s.rows[PREFILLED, :2].tolist() == [20, 20] and s.state_i[at.WASTED_ALL] == 10
    assert kept_reference.returns(s, 1) == 2
    assert kept_reference.overwrite(s, 2) == [0] and s.rows[PREFILLED, 0] == 0
    assert kept_reference.returns(s, 0) == 0


def test_a_block_that_was_not_full_comes_back_unused():
    s = state(unused=0)
    s.rows[PREFILLED, 2] = 20
    kept_reference.leave(s, 2, 3)
    assert kept_reference.returns(s, 2) == 2 and s.state_i[at.UNUSED] == 1


@given(moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=40))
def test_both_ways_do_the_same(moves):
    plain, fast = state(), state()
    free, out = 2, set()
    for kind, row, blocks in moves:
        if kind < 2 and row not in out:
            out.add(row)
            free += blocks
            for s in (plain, fast):
                s.rows[PREFILLED, row] = blocks * 10
            kept_reference.leave(plain, row, blocks)
            body(kept_kernel.leave)(fast.state_i, fast.hidden, row, blocks)
        elif kind == 2 and row in out:
            out.discard(row)
            back = kept_reference.returns(plain, row)
            assert back == body(kept_kernel.returns)(
                fast.state_i, fast.numbers_i, fast.rows, fast.hidden, row
            )
            free -= back
            for s in (plain, fast):
                s.rows[RESIDENT, row] = 10
        elif kind == 3:
            blocks = min(blocks, free)
            free -= blocks
            kept_reference.overwrite(plain, blocks)
            body(kept_kernel.overwrite)(
                fast.state_i, fast.numbers_i, fast.rows, fast.hidden, fast.times, blocks
            )
        for s in (plain, fast):
            s.rows[RESIDENT, list(out)] = 0
        assert np.array_equal(plain.rows, fast.rows) and np.array_equal(plain.state_i, fast.state_i)
        assert np.array_equal(plain.hidden, fast.hidden)
        held = plain.hidden[at.KEPT_BLOCKS, plain.state_i[at.KEPT_FIRST] : plain.state_i[at.KEPT_LAST]].sum()
        assert held + plain.state_i[at.UNUSED] == free


def test_less_is_computed_again_when_evicted_kv_stays_readable():
    trace = Trace(
        prompt_tokens=np.full(40, 100), output_tokens=np.full(40, 80), arrival_s=np.arange(40) * 0.05
    )
    runs = [
        simulate_engine(trace, _vllm(), engine=Engine(kv_tokens=800, block_tokens=10, keeps_evicted=keeps))
        for keeps in (False, True)
    ]
    dropped, kept = (run.totals for run in runs)
    assert dropped.evictions > 0 and 0 < kept.wasted_tokens < 0.7 * dropped.wasted_tokens
    assert kept.makespan_s < dropped.makespan_s


def test_a_request_waits_for_the_batch_after_the_next_when_batches_are_formed_ahead():
    trace = Trace(
        prompt_tokens=np.array([5, 5]), output_tokens=np.array([9, 1]), arrival_s=np.array([0.0, 0.01])
    )
    first = [
        simulate_engine(trace, _vllm(), engine=Engine(schedules_ahead=ahead)).requests.first_iteration[1]
        for ahead in (False, True)
    ]
    assert first == [1, 2]


def test_only_recompute_keeps_what_was_evicted():
    with pytest.raises(InputError, match="keeps_evicted"):
        Engine(overflow="restart", keeps_evicted=True)


def body(kernel):
    """A kernel's Python body: it borrows its arrays, so only kernels may call it compiled."""
    return getattr(kernel, "py_func", kernel)


def _vllm():
    from evenstep.scheduling.policies.vllm import Vllm

    return Vllm()
