"""The experiment nested-qps55 at its reduced size."""

import pytest
from tests.experiments.papers.quick import saves_iterations_and_costs_latency


@pytest.mark.slow
def test_waiting_saves_iterations_and_costs_latency():
    saves_iterations_and_costs_latency("nested-qps55", "Nested WAIT, solved")
