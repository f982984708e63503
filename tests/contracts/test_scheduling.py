"""Every scheduling policy of the house keeps the promises of its room, through both doors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import engine_runs, examples

from evenstep import compiled, names
from evenstep.sim.engine.simulation import simulate_engine

POLICIES = names.members("scheduling")
OPTIONS = (
    "a-min:reading=repaired,victim=least-kv,watermark=0.1",
    "best:paced=false,patience=0,room=0",
    "best:target_s=0.05,window=4",
    "least-attained:prompt_weight=1,makes_room=true",
    "mlfq:quantum=16,level_wait_s=1,makes_room=true",
    "srpt:makes_room=false",
    "vllm:reserve_full_prompt=false,long_prefill_token_threshold=8",
    "work-conserving:first=prefill,within=fewest-left,prefill_cap=8",
)


@pytest.mark.parametrize("name", POLICIES)
@examples(12, fast=8)  # the oracle under both doors is a test of the simulator
@given(run=engine_runs())
def test_both_doors_run_the_same_iterations(name, run):
    trace, engine, seed = run
    policy = names.build("scheduling", {"name": name})
    plain = simulate_engine(trace, policy, engine=engine, seed=seed, door="plain")
    assert plain.totals.requests == len(trace)
    if compiled.kernel_of(policy) is None:
        return
    fast = simulate_engine(trace, policy, engine=engine, seed=seed, door="compiled")
    assert fast.digest == plain.digest
    assert fast.iterations is not None and plain.iterations is not None
    for name_of, column in {n: getattr(plain.iterations, n) for n in plain.iterations.__slots__}.items():
        assert np.array_equal(getattr(fast.iterations, name_of), column), name_of
    assert np.array_equal(fast.totals.gap_counts, plain.totals.gap_counts)
    assert fast.totals.wasted_tokens == plain.totals.wasted_tokens
    assert fast.totals.moved_tokens == plain.totals.moved_tokens


@pytest.mark.parametrize("text", [*POLICIES, *(pytest.param(text, marks=pytest.mark.slow) for text in OPTIONS)])
@examples(36, fast=8)
@given(run=engine_runs())
def test_every_token_is_run_and_memory_is_kept(text, run):
    trace, engine, seed = run
    done = simulate_engine(trace, names.build("scheduling", names.parse(text)), engine=engine, seed=seed)
    totals, table, steps = done.totals, done.requests, done.iterations
    assert steps is not None
    assert totals.requests == len(trace) and totals.output_tokens == trace.output_tokens.sum()
    later = 0 if engine.first_token == "decode" else 1
    once = int((trace.prompt_tokens + trace.output_tokens - later).sum())
    assert totals.prefill_tokens + totals.decode_tokens == once + totals.wasted_tokens
    assert (steps.tokens <= (engine.token_budget or math.inf)).all()
    assert (steps.requests <= (engine.batch_limit or math.inf)).all()
    assert (steps.kv_held <= (engine.kv_tokens or math.inf)).all()
    assert (steps.tokens > 0).all()
    assert (table.arrival_s <= table.scheduled_s).all() and (table.scheduled_s < table.finished_s).all()
    assert totals.gaps == int(steps.produced.sum()) - len(trace)
    if engine.overflow != "restart":
        assert int(steps.produced.sum()) == trace.output_tokens.sum()


@pytest.mark.parametrize("name", POLICIES)
def test_a_kernel_of_the_house_is_kept_on_disk(name):
    kernel = compiled.kernel_of(names.build("scheduling", {"name": name}))
    if kernel is None or compiled.numba is None:
        return
    (only,) = kernel.form_batch_into.overloads.values()
    assert not only.library.has_dynamic_globals, "numba compiles it anew in every process, and warns"
