"""The experiment nested-qps55 at its reduced size."""

import pytest
from tests.experiments.papers.quick import ours, quick


@pytest.mark.slow
def test_waiting_saves_iterations_and_costs_latency():
    found = quick("nested-qps55")
    first = found.findings.rows[0].case.split(", ")[-1]
    own, base = (
        {q: ours(found, f"{who}, {first}", q) for q in ("iterations", "mean latency")} for who in ("Nested WAIT", "Sarathi")
    )
    assert own["iterations"] <= base["iterations"]
    assert own["mean latency"] >= base["mean latency"]
