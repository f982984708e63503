"""Nested WAIT by the paper's worked example."""

import math

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.unit import Unit
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.sim.engine.simulation import Engine, simulate_engine


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_the_papers_figure_6_as_an_exact_schedule(door):
    trace = Trace(
        prompt_tokens=np.ones(10, np.int64),
        output_tokens=np.array([1, 1, 2, 1, 2, 3, 2, 2, 1, 2]),
        arrival_s=np.array([0, 0, 1, 5, 5, 7, 7, 11, 14, 14], float),
    )
    done = simulate_engine(
        trace,
        NestedWait((3, 3), (1,), (), math.inf),
        engine=Engine(token_budget=0, batch_limit=0),
        batch_time=Unit(),
        until_s=14.5,
        door=door,
    )
    assert done.iterations is not None
    assert done.iterations.start_s.tolist() == [1.0, 7.0, 14.0]
    assert done.iterations.requests.tolist() == [3, 3, 6]
    finished = dict(zip((done.requests.request_id + 1).tolist(), done.requests.finished_s.tolist(), strict=True))
    assert finished == {1: 2.0, 2: 2.0, 4: 8.0, 3: 15.0, 5: 15.0, 9: 15.0}
    assert done.iterations.running[-1] + done.iterations.waiting[-1] == 7  # P6 P7 P8 stay, P10 waits; P3 P5 P9 end


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"ends": (4, 4)}, "ends"),
        ({"ends": (0,)}, "ends"),
        ({"thresholds": (3, 2, 1)}, "thresholds"),
        ({"prompt_edges": (9, 3)}, "prompt_edges"),
    ],
)
def test_segments_that_do_not_ascend_or_match_are_refused(options, field):
    with pytest.raises(InputError, match=field):
        NestedWait(**options)


def test_one_segment_can_be_written():
    """`evenstep thresholds --segments 1` prints it so."""
    made = names.build("scheduling", names.parse("nested-wait:thresholds=5,ends="))
    assert (made.thresholds, made.ends) == ((5,), ())
