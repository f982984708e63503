"""The replay of measured vLLM runs: what is read, what is compared, and that the quick one runs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers import engine_reality as reality
from evenstep.request import Trace
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.sim.engine.simulation import simulate_engine


@pytest.mark.parametrize("one", reality.RUNS, ids=lambda one: one.name)
def test_measured_runs_are_whole_and_in_order(one):
    rows = reality.columns(one.name)
    assert rows["arrival_s"].size == 300 and rows["arrival_s"][0] == 0
    assert (np.diff(rows["arrival_s"]) > 0).all()
    assert (rows["arrival_s"] <= rows["queued_s"]).all() and (rows["queued_s"] < rows["first_token_s"]).all()
    assert (rows["first_token_s"] < rows["last_token_s"]).all()


def test_the_figures_are_those_the_run_was_published_with():
    real = reality.measured(reality.columns("rtx4090-llama31-8b"))
    assert real["TTFT in the engine"].mean() == pytest.approx(65.5, abs=0.05)
    assert real["TPOT"].mean() == pytest.approx(32.4e-3, abs=0.1e-3)


def test_a_request_is_taken_up_when_an_iteration_starts():
    trace = Trace(prompt_tokens=np.array([9, 9]), output_tokens=np.array([3, 1]), arrival_s=np.array([0.5, 0.51]))
    run = simulate_engine(trace, Vllm())
    assert run.iterations is not None
    assert reality.taken_up(run).tolist() == [0.5, run.iterations.start_s[1]]


@pytest.mark.slow
def test_the_replay_of_the_32b_run_is_within_its_limit():
    found = quick("engine-reality", seeds=1)
    rows = {row.quantity: row for row in found.findings.rows if row.case == "rtxpro6000-qwen3-32b"}
    for quantity in (
        "TTFT, mean",
        "TTFT, p95",
        "TPOT, mean",
        "TPOT, p95",
        "end to end, mean",
        "end to end, p95",
    ):
        assert ours(found, "rtxpro6000-qwen3-32b", quantity) == pytest.approx(rows[quantity].paper, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("one", reality.RUNS, ids=lambda one: one.name)
def test_every_run_is_within_its_limit(one):
    rows = reality.columns(one.name)
    apart = reality.off(reality.measured(rows), reality.replayed(one, rows))
    assert max(abs(share) for share in apart.values()) < one.within


@pytest.mark.slow
def test_ranks_by_themselves_get_the_requests_in_turn_and_do_not_wait_for_each_other():
    one, rows = reality.RUNS[-1], reality.columns(reality.RUNS[-1].name)
    assert one.engine.data_parallel == 2
    few = {name: column[:40] for name, column in rows.items()}
    alone, together = (reality.replayed(one, few, without)["TPOT"].mean() for without in (reality.APART, ""))
    assert alone < together
