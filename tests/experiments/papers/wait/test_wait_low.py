"""The experiment wait-low at its reduced size."""

from tests.experiments.papers.quick import ours, quick


def test_waiting_saves_iterations_and_costs_latency():
    found = quick("wait-low")
    first = found.findings.rows[0].case.split(", ")[-1]
    own, base = (
        {q: ours(found, f"{who}, {first}", q) for q in ("iterations", "mean latency")} for who in ("WAIT", "Sarathi")
    )
    assert own["iterations"] <= base["iterations"]
    assert own["mean latency"] >= base["mean latency"]
