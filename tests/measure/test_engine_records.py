"""Figures of an engine's run, against the same figures worked out from its tables."""

import dataclasses

import numpy as np
import pytest

from evenstep.cost.power import Power, watts
from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.measure.engine_records import EngineRequestTable, EngineRun, EngineTotals, energy_j, first_and_next_s, judged
from evenstep.measure.metrics import Slo
from evenstep.measure.quantiles import LogHistogram
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine


def run(count=300, **options):
    rng = np.random.default_rng(4)
    trace = Trace(
        prompt_tokens=rng.integers(1, 60, count),
        output_tokens=rng.integers(1, 40, count),
        arrival_s=np.sort(rng.uniform(0, 100, count)),
    )
    return simulate_engine(trace, Sarathi(), engine=Engine(**options), batch_time=Unit(seconds_each=0.01))


def test_a_run_is_shown_in_a_line_and_not_with_all_its_rows():
    assert repr(run(3)) == str(run(3)) == "<run of Sarathi on a workload, 3 requests>"


def test_latencies_are_those_of_the_request_table():
    done = run(kv_tokens=160)
    table, figures = done.requests, done.summary
    e2e = table.finished_s - table.arrival_s
    assert figures["e2e_mean_s"] == np.mean(e2e) and figures["tel_s"] == np.sum(e2e)
    assert figures["e2e_p99_s"] == pytest.approx(np.quantile(e2e, 0.99), rel=1e-12)
    assert figures["throughput_tokens_per_s"] == table.output_tokens.sum() / done.totals.makespan_s
    assert figures["evictions"] == table.evictions.sum() == done.iterations.evicted.sum()
    assert figures["wasted_tokens"] == table.wasted_tokens.sum() > 0


def by_hand():
    """A request of 4 and 1 tokens, that waits 1 s and ends at 2 s; and one of 6 and 4 tokens from 1 to 9 s, with gaps of 2 s."""
    gaps = LogHistogram()
    gaps.add(np.array([1.0, 2.0, 3.0]))
    whole, none = (lambda *values: np.array(values)), np.zeros(2, np.int64)
    table = EngineRequestTable(
        request_id=whole(0, 1),
        prompt_tokens=whole(4, 6),
        output_tokens=whole(1, 4),
        request_class=none,
        arrival_s=whole(0.0, 1.0),
        scheduled_s=whole(1.0, 1.0),
        first_token_s=whole(2.0, 3.0),
        finished_s=whole(2.0, 9.0),
        first_iteration=none,
        last_iteration=none,
        evictions=none,
        wasted_tokens=none,
        rank=none,
    )
    totals = EngineTotals(
        requests=2,
        output_tokens=5,
        prompt_tokens=10,
        unfinished=1,
        iterations=4,
        evictions=0,
        wasted_tokens=0,
        moved_tokens=6,
        prefill_tokens=13,
        decode_tokens=3,
        makespan_s=0.5,
        busy_s=0.4,
        gaps=3,
        gap_mean_s=2.0,
        gap_max_s=3.0,
        gap_counts=gaps.counts,
        barrier_s=0.1,
    )
    return EngineRun(run(1).conditions, totals, table)


def test_every_figure_by_hand():
    figures = by_hand().summary
    for name, mean, highest in (("e2e", 5.0, 8.0), ("ttft", 2.0, 2.0), ("wait", 0.5, 1.0), ("tpot", 2.0, 2.0)):
        assert figures[f"{name}_mean_s"] == figures[f"{name}_p50_s"] == mean
        assert figures[f"{name}_p99_s"] == pytest.approx(mean + 0.98 * (highest - mean))
    assert figures["tel_s"] == 10.0
    assert (figures["tbt_mean_s"], figures["tbt_max_s"]) == (2.0, 3.0)
    assert figures["tbt_p50_s"] == pytest.approx(2.0, rel=0.001)
    assert figures["throughput_tokens_per_s"] == 10.0
    assert figures["throughput_with_prompts_tokens_per_s"] == 30.0
    assert figures["throughput_requests_per_s"] == 4.0
    assert (figures["busy_share"], figures["barrier_share"]) == (0.8, 0.25)
    two = dataclasses.replace(by_hand().requests, output_tokens=np.array([1, 2]))
    assert first_and_next_s(two)[1].tolist() == [0.0, 6.0]  # a single token has no gap, two have one


def test_a_run_of_no_length_has_rates_and_shares_of_0():
    done = by_hand()
    figures = dataclasses.replace(done, totals=dataclasses.replace(done.totals, makespan_s=0.0, busy_s=0.0)).summary
    assert {name: value for name, value in figures.items() if name.endswith(("_per_s", "_share"))} == {
        "throughput_tokens_per_s": 0.0,
        "throughput_with_prompts_tokens_per_s": 0.0,
        "throughput_requests_per_s": 0.0,
        "busy_share": 0.0,
        "barrier_share": 0.0,
    }


def test_gaps_between_tokens_are_iterations_when_nobody_pauses():
    figures = run().summary
    assert figures["tbt_p50_s"] == pytest.approx(0.01, rel=2e-3)
    assert figures["tbt_mean_s"] == pytest.approx(0.01) and figures["tbt_max_s"] == pytest.approx(0.01)


def test_a_run_of_single_tokens_has_no_gaps():
    trace = Trace(prompt_tokens=np.array([3]), output_tokens=np.array([1]))
    figures = simulate_engine(trace, Sarathi()).summary
    assert np.isnan(figures["tbt_p99_s"]) and np.isnan(figures["tpot_mean_s"])


def test_goodput_counts_requests_within_both_limits_and_one_token_has_no_gap():
    done = run(kv_tokens=160)
    table = done.requests
    slo = Slo(ttft_s=float(np.quantile(table.first_token_s - table.arrival_s, 0.9)), tpot_s=0.0101)
    good = [
        first - arrived <= slo.ttft_s and (tokens == 1 or (end - first) / (tokens - 1) <= slo.tpot_s)
        for arrived, first, end, tokens in zip(
            table.arrival_s, table.first_token_s, table.finished_s, table.output_tokens, strict=True
        )
    ]
    found = judged(done, slo)
    early = np.sum(table.first_token_s - table.arrival_s <= slo.ttft_s)
    assert 0 < sum(good) < early < 300 and any(table.output_tokens[good] == 1)
    assert found["slo_share"] == sum(good) / 300
    assert found["goodput_requests_per_s"] == sum(good) / done.totals.makespan_s
    assert found["goodput_tokens_per_s"] == table.output_tokens[good].sum() / done.totals.makespan_s
    assert judged(done, Slo(ttft_s=1e9))["slo_share"] == 1.0


def test_energy_is_that_of_the_tokens_and_of_the_time_without_a_batch():
    power = Power(model_params=1e9, peak_flops=312e12, idle_w=50.0, max_w=250.0)
    trace = Trace(prompt_tokens=np.array([7, 3]), output_tokens=np.array([1, 1]), arrival_s=np.array([0.0, 2.0]))
    done = simulate_engine(trace, Sarathi(), engine=Engine(), batch_time=Unit(seconds_each=0.5))
    both = float(watts(power, np.array([14.0, 6.0])).sum()) * 0.5
    assert energy_j(power, done) == pytest.approx(both + 1.5 * 50.0)
    with pytest.raises(InputError, match="records"):
        energy_j(power, simulate_engine(trace, Sarathi(), engine=Engine(), records=False))
