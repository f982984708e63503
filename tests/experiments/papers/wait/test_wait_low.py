"""The experiment wait-low at its reduced size."""

from tests.experiments.papers.quick import saves_iterations_and_costs_latency


def test_waiting_saves_iterations_and_costs_latency():
    saves_iterations_and_costs_latency("wait-low", "WAIT")
