"""Types of a trace for thresholds, and what a trace without a rate says."""

import numpy as np
import pytest

from evenstep.cost.affine_kv import AffineKv
from evenstep.errors import InputError
from evenstep.experiments.compare.gate_thresholds import Question, answer
from evenstep.request import Trace
from evenstep.sim.engine.simulation import Engine


def trace():
    return Trace(
        prompt_tokens=np.array([10, 30, 20, 20]),
        output_tokens=np.array([4, 8, 4, 600]),
        arrival_s=np.array([0.0, 1.0, 2.0, 3.0]),
        request_class=np.array([0, 0, 2, 2]),
    )


def test_types_are_classes_of_mean_lengths_or_outputs_of_one_prompt():
    asked = Question(trace(), Engine(), AffineKv(0.01, 1e-7))
    by_class = asked.types(np.array([0, 0, 2, 2]), prompts=True)
    assert (by_class.prompt_tokens, by_class.output_tokens) == ([20.0, 20.0], [6.0, 302.0])
    by_output = asked.types(np.array([4, 8, 4, 600]) // 5, prompts=False)
    assert (by_output.prompt_tokens, by_output.output_tokens) == ([20.0] * 3, [4.0, 8.0, 600.0])
    assert by_output.arrivals_per_s == pytest.approx([0.5, 0.25, 0.25])
    assert [gate["type"] for gate in answer(asked)["wait"]["gates"]] == [0, 2]


def test_segments_end_where_their_longest_output_does():
    found = answer(Question(trace(), Engine(), AffineKv(0.01, 1e-7), segments=2))
    assert found["nested_wait"]["ends"] == [4]


def test_requests_at_one_time_have_no_rate():
    at_once = Trace(np.array([1, 1]), np.array([1, 1]), arrival_s=np.array([0.0, 0.0]))
    with pytest.raises(InputError, match="no rate"):
        Question(at_once, Engine(), AffineKv())
