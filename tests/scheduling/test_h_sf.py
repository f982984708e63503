"""H-SF by the paper's examples."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.predict.intervals import Quantiles
from evenstep.predict.survival import Survival
from evenstep.request import Trace
from evenstep.scheduling.policies.a_random import ARandom
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.sim.engine.simulation import Engine, simulate_engine


@pytest.mark.parametrize("door", ["plain", "compiled"])
@pytest.mark.parametrize(("output", "memory", "total"), [([1, 1, 1, 1, 1], 10, 5.0), ([1, 2, 3, 4], 7, 12.0)])
def test_the_papers_examples_take_five_and_twelve(output, memory, total, door):
    tokens = np.array(output)
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow="never", hold_produced=True)
    done = simulate_engine(
        Trace(prompt_tokens=np.ones_like(tokens), output_tokens=tokens),
        HindsightShortestFirst(),
        engine=engine,
        batch_time=Unit(),
        bounds=(tokens, tokens),
        door=door,
    )
    assert done.summary["tel_s"] == total


@pytest.mark.parametrize("policy", [HindsightShortestFirst(), ARandom()], ids=["h-sf", "a-random"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_it_knows_the_truth_whatever_others_believe(ranks, policy):
    trace = Trace(prompt_tokens=np.array([2, 2, 2, 2]), output_tokens=np.array([9, 3, 5, 1]))
    engine = Engine(kv_tokens=12, data_parallel=ranks)
    truth, wide = (trace.output_tokens, trace.output_tokens), (np.ones(4, np.int64), np.full(4, 10))
    learned = Quantiles(Survival())
    runs = [simulate_engine(trace, policy, engine=engine, bounds=b, name="h") for b in (None, truth, wide, learned)]
    assert len({run.digest for run in runs}) == 1
    assert {run.conditions.bounds for run in runs} == {"the truth"}
