"""Token budgets at their reduced size."""

from types import SimpleNamespace

import pytest
from tests.experiments.papers.quick import apart, interval, lies_within, ours, quick

from evenstep.experiments.papers.throughput import token_budget_fig9
from evenstep.experiments.papers.throughput.token_budget_fig9 import BUDGETS, LAWS, LOADS, METRICS
from evenstep.experiments.reproduce import Setting
from evenstep.experiments.vocabulary import below, within

END, FIRST = METRICS.values()
PLAIN, LONG = LAWS
LAST = {(0.5, PLAIN): False, (0.5, LONG): False, (0.9, PLAIN): True, (0.9, LONG): None}


def test_lengths_may_come_from_a_workload_file():
    found = quick("token-budget-fig9", seeds=1, traces=("examples/workloads/burst.yaml",))
    assert found.findings.stands_in.startswith("lengths of burst with Poisson arrivals")


def test_the_constants_count_the_requests_that_run_where_the_sample_has_fewer(monkeypatch):
    seen = []
    one = SimpleNamespace(summary=dict.fromkeys(METRICS, 1.0))
    monkeypatch.setattr(token_budget_fig9, "_one", lambda lengths, *_: seen.append(len(lengths)) or one)
    found = token_budget_fig9.experiment.run(Setting())
    assert [int(str(c.value)) for c in found.constants if c.name == "requests"] == list(set(seen)) == [3_000]


@pytest.mark.slow
def test_512_ends_first_under_a_high_load_alone_and_1024_answers_first_under_any():
    found = quick("token-budget-fig9", seeds=12)
    holds = {claim.says: claim.holds for claim in found.findings.claims}
    assert len(holds) == 2 * len(LAWS) * len(LOADS)
    for (load, law), verdict in LAST.items():
        where = f"at load {load:g}, batch time {law}"
        assert holds[f"1024 has the lowest median time to the first token, {where}"] is True
        assert holds[f"512 has the lowest median end-to-end latency, {where}"] is verdict
    for law in LAWS:
        low, middle, high = (f"load {load:g}, {law}" for load in LOADS)
        assert within(apart(found, f"b = 128, {low}", END), -1.8, -1)
        assert within(apart(found, f"b = 128, {high}", END), 6, 12)
        for load, least, most in ((low, 0.1, 0.5), (middle, 0.1, 0.8)):
            assert within(apart(found, f"b = 1024, {load}", END), least, most)
        assert below(interval(found, f"b = 512, {middle}", FIRST), interval(found, f"b = 128, {middle}", FIRST))
        lies_within(found, f"b = 512, {middle}", END, 9, 11.5)
        lies_within(found, f"b = 512, {middle}", FIRST, 0.25, 0.36)


@pytest.mark.slow
def test_attention_to_what_went_before_costs_small_chunks_most():
    found = quick("token-budget-fig9", seeds=12)
    dearer = [
        ours(found, f"b = {b}, load 0.7, {LONG}", END) / ours(found, f"b = {b}, load 0.7, {PLAIN}", END) for b in BUDGETS
    ]
    assert dearer[0] > 1.08 > dearer[1] > dearer[2] > 1.02
