"""H-SF by the paper's examples."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.h_sf import HindsightShortestFirst
from evenstep.sim.engine import Engine, simulate_engine


@pytest.mark.parametrize("door", ["plain", "compiled"])
@pytest.mark.parametrize(("output", "memory", "total"), [([1, 1, 1, 1, 1], 10, 5.0), ([1, 2, 3, 4], 7, 12.0)])
def test_the_papers_examples_take_five_and_twelve(output, memory, total, door):
    tokens = np.array(output)
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow="never", hold_produced=True)
    done = simulate_engine(
        Trace(prompt_tokens=np.ones_like(tokens), output_tokens=tokens), HindsightShortestFirst(), engine=engine,
        batch_time=Unit(), bounds=(tokens, tokens), door=door,
    )  # fmt: skip
    assert done.summary["tel_s"] == total
