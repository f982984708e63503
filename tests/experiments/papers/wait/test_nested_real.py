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
def test_the_half_second_is_a_row_of_its_own():
    found = quick("nested-real")
    rows = {row.case: row for row in found.findings.rows if row.quantity == "added latency"}
    case = "512 tokens, 0.5 of capacity"
    own, base = (ours(found, f"{who}, {case}", "mean latency") for who in ("Nested WAIT", "Sarathi"))
    assert rows[f"Nested WAIT over Sarathi, {case}"].ours.value == pytest.approx(own - base)
    assert all(row.paper == 0.5 for row in rows.values()) and len(rows) == 12
