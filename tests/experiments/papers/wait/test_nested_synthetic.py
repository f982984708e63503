"""The experiment nested-synthetic at its reduced size."""

import pytest
from tests.experiments.papers.quick import saves_iterations_and_costs_latency


@pytest.mark.slow
def test_waiting_saves_iterations_and_costs_latency():
    saves_iterations_and_costs_latency("nested-synthetic", "Nested WAIT")
