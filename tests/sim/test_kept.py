"""Free memory that still holds KV: what comes back, and what is overwritten first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.engine import FreeMemory
from tests.sim.kernels import engine_run

from evenstep.compiled import as_plain, column
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.engine import kept
from evenstep.sim.engine.simulation import Engine, simulate_engine

leave, returns, overwrite = as_plain(kept.leave), as_plain(kept.returns), as_plain(kept.overwrite)


def state(unused=2):
    """Four requests, blocks of ten tokens."""
    found = engine_run(Trace(np.full(4, 50), np.full(4, 9)), Engine(block_tokens=10, keeps_evicted=True))
    found.now.unused_blocks = unused
    return found


def test_unused_memory_goes_first_then_the_oldest_from_its_end():
    run = state()
    shown = run.requests.shown
    for row, blocks in ((1, 3), (0, 2)):
        shown[row].prefilled = blocks * 10
        leave(run, row, blocks)
    overwrite(run, 3)
    assert column(shown, "prefilled")[:2].tolist() == [20, 20] and run.now.wasted_tokens == 10
    assert shown[1].left == 30
    assert returns(run, 1) == 2
    overwrite(run, 2)
    assert shown[0].prefilled == 0 and shown[0].left == 50
    assert returns(run, 0) == 0


def test_a_block_that_was_not_full_comes_back_unused():
    run = state(unused=0)
    run.requests.shown[2].prefilled = 20
    leave(run, 2, 3)
    assert returns(run, 2) == 2 and run.now.unused_blocks == 1


@given(moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=40))
def test_it_keeps_what_a_dictionary_in_order_of_leaving_keeps(moves):
    run, oracle = state(), FreeMemory(2)
    shown, free, out = run.requests.shown, 2, set()
    for kind, row, blocks in moves:
        if kind < 2 and row not in out:
            out.add(row)
            free += blocks
            shown[row].prefilled, shown[row].resident = blocks * 10, 0
            leave(run, row, blocks)
            oracle.leave(row, blocks)
        elif kind == 2 and row in out:
            out.discard(row)
            back = returns(run, row)
            assert back == oracle.returns(row, int(shown[row].prefilled) // 10)
            free -= back
            shown[row].resident = 10
        elif kind == 3:
            blocks = min(blocks, free)
            free -= blocks
            overwrite(run, blocks)
            for lost, left in oracle.overwrite(blocks).items():
                assert shown[lost].prefilled == left * 10
        first, last = int(run.now.kept_first), int(run.now.kept_last)
        kept_now = [(int(run.kept[i].row), int(run.kept[i].blocks)) for i in range(first, last)]
        assert [(row, blocks) for row, blocks in kept_now if blocks] == list(oracle.kept.items())
        assert run.now.unused_blocks == oracle.unused
        assert sum(blocks for _, blocks in kept_now) + oracle.unused == free


def test_less_is_computed_again_when_evicted_kv_stays_readable():
    trace = Trace(prompt_tokens=np.full(40, 100), output_tokens=np.full(40, 80), arrival_s=np.arange(40) * 0.05)
    runs = [
        simulate_engine(trace, _vllm(), engine=Engine(kv_tokens=800, block_tokens=10, keeps_evicted=keeps))
        for keeps in (False, True)
    ]
    dropped, kept = (run.totals for run in runs)
    assert dropped.evictions > 0 and 0 < kept.wasted_tokens < 0.7 * dropped.wasted_tokens
    assert kept.makespan_s < dropped.makespan_s


def test_a_request_waits_for_the_batch_after_the_next_when_batches_are_formed_ahead():
    trace = Trace(prompt_tokens=np.array([5, 5]), output_tokens=np.array([9, 1]), arrival_s=np.array([0.0, 0.01]))
    first = [
        simulate_engine(trace, _vllm(), engine=Engine(schedules_ahead=ahead)).requests.first_iteration[1]
        for ahead in (False, True)
    ]
    assert first == [1, 2]


def test_only_recompute_keeps_what_was_evicted():
    with pytest.raises(InputError, match="keeps_evicted"):
        Engine(overflow="restart", keeps_evicted=True)


def _vllm():
    from evenstep.scheduling.policies.vllm import Vllm

    return Vllm()
