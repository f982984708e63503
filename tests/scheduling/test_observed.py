"""What a gated policy observes, held against what truly happened, and the thresholds it solves from it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import engine_runs, examples

from evenstep.compiled import as_plain
from evenstep.cost.affine_kv import AffineKv
from evenstep.request import Trace
from evenstep.scheduling.gates.observed import (
    ARRIVED,
    BESIDE,
    COUNT,
    D0,
    D1,
    KV,
    PRODUCTS,
    SECONDS,
    SQUARES,
    line,
    words_of,
    work_since,
)
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory import nested_thresholds, wait_thresholds
from evenstep.theory.fluid import Types

FOR_EVER = 1e9
LAW = AffineKv(0.01, 4e-7)
FREE = Engine(token_budget=0, batch_limit=0, first_token="decode")


@dataclass(frozen=True)
class Watched:
    """A policy whose memory, and the time it was asked at, are written down."""

    policy: Wait | NestedWait
    kept: list = field(default_factory=list)

    @property
    def memory_size(self):
        return self.policy.memory_size

    def form_batch(self, view):
        decision = self.policy.form_batch(view)
        self.kept.append((view.now_s, decision.memory))
        return decision


def window(policy, words, memory):
    """The window that is going on: its words, and as float64."""
    first = words.beside + BESIDE
    return memory[first : first + words.window], memory.view(np.float64)[first : first + words.window]


def test_the_work_of_a_segment_is_a_sum_over_its_iterations():
    since = as_plain(work_since)
    assert since(10, 0, 3, 0) == 10 + 11 + 12 + 13  # the prefill and three decodes
    assert since(10, 0, 3, 1) == 10 + 11 + 12  # the prefill makes the first token
    assert since(10, 3, 5, 0) == 14 + 15
    assert since(10, 0, -1, 0) == since(10, 0, -1, 1) == since(10, 3, 3, 0) == 0


@pytest.mark.slow
@examples(40, fast=12)
@given(engine_runs(), st.sampled_from([(), (3,), (2, 9)]))
def test_who_ended_and_their_work_are_known_exactly_although_nobody_says_it(run, ends):
    trace, engine, seed = run
    engine = replace(engine, kv_tokens=0, overflow="recompute", keeps_evicted=False, schedules_ahead=False)
    watched = Watched(NestedWait((2,) * (len(ends) + 1), ends, (8,), 0.1, FOR_EVER))
    done = simulate_engine(trace, watched, engine=engine, seed=seed, door="plain").requests
    now_s, memory = watched.kept[-1]
    words = watched.policy.words
    counts, _ = window(watched.policy, words, memory)
    left, went_on, work = counts[ARRIVED + words.groups :].reshape(3, words.groups, words.segments)
    began_s = watched.kept[0][0]
    ended = done.finished_s <= now_s
    first = 0 if engine.first_token == "decode" else 1
    group = (done.prompt_tokens >= 8).astype(int)
    for g in range(2):
        outputs, prompts = (column[ended & (group == g)] for column in (done.output_tokens, done.prompt_tokens))
        assert (left - went_on)[g].sum() == outputs.size
        segment = np.searchsorted(ends, outputs, side="left")
        assert (left - went_on)[g].tolist() == np.bincount(segment, minlength=words.segments).tolist()
        if not ends:
            since = as_plain(work_since)
            whole = sum(since(int(p), 0, int(o), first) for p, o in zip(prompts, outputs, strict=True))
            assert work[g].sum() == whole
        assert counts[ARRIVED + g] == ((done.arrival_s > began_s) & (group == g)).sum()


@pytest.mark.slow
def test_the_line_is_that_of_the_law():
    trace = poisson(20.0, 60.0, (100, 200), (50, 100))
    watched = Watched(Wait((3, 3), 1.0, FOR_EVER))
    simulate_engine(trace, watched, engine=FREE, batch_time=LAW, door="plain")
    counts, times = window(watched.policy, words_of(2, 1), watched.kept[-1][1])
    found = as_plain(line)(
        int(counts[COUNT]),
        int(counts[KV]),
        float(times[SECONDS]),
        int(counts[SQUARES]),
        float(times[PRODUCTS]),
    )
    assert found[0] and found[1:] == pytest.approx((LAW.d0_s, LAW.d1_s), rel=1e-6)


def test_a_line_that_does_not_rise_is_flat_and_batches_that_are_alike_have_none():
    sizes, seconds = np.array([10, 20] * 4), np.array([2.0, 1.0] * 4)

    def drawn(sizes, seconds):
        return as_plain(line)(
            sizes.size,
            int(sizes.sum()),
            float(seconds.sum()),
            int((sizes**2).sum()),
            float((sizes * seconds).sum()),
        )

    assert drawn(sizes, seconds) == (True, 1.5, 0.0)
    assert drawn(sizes, 0.5 + sizes / 8.0) == (True, 0.5, 0.125)
    assert not drawn(sizes[:6], 0.5 + sizes[:6] / 8.0)[0]
    assert not drawn(np.full(9, 20), np.ones(9))[0]


def poisson(rate, seconds, prompts, outputs, seed=3, start_s=0.0):
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate * seconds)
    kind = rng.integers(0, len(prompts), count)
    return Trace(
        np.array(prompts)[kind],
        np.array(outputs)[kind],
        arrival_s=start_s + np.sort(rng.random(count)) * seconds,
        request_class=kind,
        synthetic=True,
    )


def thresholds(run, count):
    return [run.totals.counted[f"threshold_{k + 1}"] for k in range(count)]


def until_last(trace, policy, door="compiled", engine=FREE):
    return simulate_engine(
        trace,
        policy,
        engine=engine,
        batch_time=LAW,
        door=door,
        until_s=float(trace.column("arrival_s")[-1]),
        records=False,
    )


def test_at_a_constant_rate_the_thresholds_come_near_those_the_theory_solves_from_the_true_rates():
    types = Types((150.0, 150.0), (100, 100), (50, 50), LAW.d0_s, LAW.d1_s)
    theirs = wait_thresholds.least(types).thresholds
    found = until_last(poisson(300.0, 150.0, (100, 100), (50, 50)), Wait((2, 2), 1.0, 40.0))
    assert thresholds(found, 2) == pytest.approx(theirs.tolist(), rel=0.25, abs=1)
    nested = Types((122.0, 91.5, 61.0, 30.5), (50,) * 4, (20, 40, 80, 160), LAW.d0_s, LAW.d1_s)
    wanted = nested_thresholds.with_slack(nested, 0.0, iterations=1e6, delta=0.01).thresholds
    trace = poisson(305.0, 120.0, (50,) * 10, (20,) * 4 + (40,) * 3 + (80,) * 2 + (160,))
    found = until_last(trace, NestedWait((8, 4, 2, 1), (20, 40, 80), (), 1.0, 30.0))
    assert thresholds(found, 4) == pytest.approx(wanted.tolist(), rel=0.15, abs=1)


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_a_load_that_is_refused_keeps_the_thresholds(door):
    run = until_last(poisson(800.0, 8.0, (100,), (50,)), Wait((7,), 1.0, 1.0), door)
    assert run.totals.counted["solve_refused_load"] > 0
    assert run.totals.counted["thresholds_changed"] == 0 and run.totals.counted["threshold_1"] == 7


def test_full_batches_that_are_all_alike_leave_the_line_as_it_was():
    watched = Watched(Wait((7,), 1.0, 1.0))
    until_last(poisson(800.0, 8.0, (100,), (50,)), watched, "plain")
    memory = watched.kept[-1][1]
    beside = words_of(1, 1).beside
    counts, _ = window(watched.policy, words_of(1, 1), memory)
    assert counts[COUNT] * counts[SQUARES] == counts[KV] ** 2
    assert memory.view(np.float64)[[beside + D0, beside + D1]] == pytest.approx((LAW.d0_s, LAW.d1_s))


def test_a_full_batch_that_does_not_fit_the_memory_keeps_the_thresholds():
    trace = poisson(60.0, 20.0, (100,), (50,))
    run = simulate_engine(trace, Wait((2,), 1.0, 2.0), engine=replace(FREE, kv_tokens=4000), batch_time=LAW, records=False)
    assert run.totals.counted["solve_refused_memory"] > 0
    assert run.totals.counted["thresholds_changed"] == 0
    assert run.totals.requests == len(trace)


@pytest.mark.slow
def test_rates_that_change_are_followed_and_both_doors_agree():
    low, high = (poisson(*rate, (100, 200), (20, 40), start_s=s) for rate, s in (((20.0, 20.0), 0), ((300.0, 40.0), 20)))
    trace = Trace(
        *(np.concatenate([getattr(t, n) for t in (low, high)]) for n in ("prompt_tokens", "output_tokens")),
        **{n: np.concatenate([t.column(n) for t in (low, high)]) for n in ("arrival_s", "request_class")},
        synthetic=True,
    )
    policy = Wait((1, 1), 1.0, 4.0)
    plain, fast = (until_last(trace, policy, door) for door in ("plain", "compiled"))
    assert plain.totals.counted == fast.totals.counted and plain.digest == fast.digest
    assert fast.totals.counted["thresholds_changed"] > 0
    assert fast.summary["e2e_mean_s"] < 0.5 * until_last(trace, Wait((1, 1))).summary["e2e_mean_s"]
