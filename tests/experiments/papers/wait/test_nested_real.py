"""The experiment nested-real: its lengths, and a run at its reduced size."""

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.wait.nested_real import drawn


def test_outputs_lie_in_the_bin_of_their_type_and_prompts_differ():
    which = np.arange(5_000) % 10
    prompt, output = drawn(which, 0, 0)
    assert ((output - 1) // 50 == which).all()
    assert prompt.mean() == pytest.approx(60, rel=0.1)
    assert len(set(output.tolist())) > 300 and len(set(prompt.tolist())) > 50
    assert not (output == drawn(which, 0, 1)[1]).all()


@pytest.mark.slow
def test_waiting_saves_iterations_and_costs_latency():
    found = quick("nested-real")
    own, base = (
        {q: ours(found, f"{who}, 55 requests/s", q) for q in ("iterations", "mean latency")}
        for who in ("Nested WAIT", "Sarathi")
    )
    assert own["iterations"] <= base["iterations"]
    assert own["mean latency"] >= base["mean latency"]
