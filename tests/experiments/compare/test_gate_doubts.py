"""What the theory says beforehand of thresholds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.unit import Unit
from evenstep.experiments.compare.engine_compare import run_engine_comparison
from evenstep.experiments.compare.engine_settings import EngineSettings
from evenstep.experiments.compare.gate_doubts import gate_doubts
from evenstep.request import Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.wait import Wait
from evenstep.sim.engine.simulation import Engine

#: Half end after 10 tokens, half after 20; a hundred a second.
TRACE = Trace(
    np.full(400, 20),
    np.tile([10, 20], 200),
    arrival_s=np.arange(400) / 100,
    request_class=np.tile([0, 1], 200),
    synthetic=True,
)
LAW = AffineKv(0.01, 1e-6)


def test_thresholds_that_keep_the_conditions_raise_no_doubt():
    assert gate_doubts(NestedWait((4, 3), (10,)), TRACE, Engine(), LAW) == []
    assert gate_doubts(Wait((2, 2)), TRACE, Engine(), LAW) == []
    assert gate_doubts(Wait((8,)), replace(TRACE, request_class=None), Engine(), LAW) == []
    assert gate_doubts(Sarathi(), TRACE, Engine(kv_tokens=100), LAW) == []


def test_thresholds_that_are_only_the_first_raise_no_doubt():
    assert gate_doubts(Wait((1,)), TRACE, Engine(kv_tokens=100), AffineKv(0.05, 1e-6))
    assert gate_doubts(Wait((1,), 1.0, 20.0), TRACE, Engine(kv_tokens=100), AffineKv(0.05, 1e-6)) == []


def test_each_condition_is_told_with_its_numbers():
    said = gate_doubts(NestedWait((4, 2), (10,)), TRACE, Engine(kv_tokens=500), AffineKv(0.05, 1e-6))
    assert [text.split(" ")[:3] for text in said] == [
        ["an", "iteration", "takes"],
        ["n_2", "/", "n_1"],
        ["a", "full", "batch"],
    ]
    assert "0.04 s" in said[0] and "2 / 4; it has to be above 0.5" in said[1] and "the memory 500" in said[2]
    slow = gate_doubts(Wait((2, 2)), TRACE, Engine(kv_tokens=500), AffineKv(0.05, 1e-6))
    assert [text.split(":")[0] for text in slow[:2]] == ["type 0", "type 1"] and "the memory 500" in slow[2]


def test_of_a_law_that_is_not_affine_only_the_shares_and_the_memory_are_told():
    for law, trace in ((Unit(), TRACE), (AffineKv(9.0), replace(TRACE, arrival_s=np.zeros(400)))):
        assert [text[:3] for text in gate_doubts(NestedWait((4, 2), (10,)), trace, Engine(), law)] == ["n_2"]
        assert gate_doubts(Wait((2, 2)), trace, Engine(), law) == []


def test_memory_that_holds_a_full_batch_and_no_queue_is_told():
    policy = NestedWait((40, 30), (10,))
    full = 40 * (20 + 10 * 25.5) + 30 * 10 * 35.5
    assert "a full batch" in gate_doubts(policy, TRACE, Engine(kv_tokens=int(full) - 1), LAW)[0]
    said = gate_doubts(policy, TRACE, Engine(kv_tokens=int(full) + 1), LAW)
    assert len(said) == 1
    needed = float(said[0].split("less than the ")[1].split(" ")[0])
    assert needed > full
    assert gate_doubts(policy, TRACE, Engine(kv_tokens=math.ceil(needed * 1.01)), LAW) == []


def test_groups_of_prompts_share_the_iteration_and_the_memory():
    two = replace(TRACE, prompt_tokens=np.repeat([20, 40], 200))
    said = gate_doubts(NestedWait((4, 3, 4, 2), (10,), (30,)), two, Engine(kv_tokens=100), LAW)
    assert len(said) == 2
    assert said[0].startswith("a full batch")
    assert said[1].startswith("prompts of group 2: n_2 / n_1 is 2 / 4")


def test_segments_that_nobody_reaches_ask_for_nothing():
    assert gate_doubts(NestedWait((4, 3, 1), (10, 500)), TRACE, Engine(), LAW) == []


@pytest.mark.parametrize("batch_time", ["affine-kv", "token-budget"])
def test_a_comparison_says_it_in_its_notes(batch_time):
    asked = EngineSettings(
        source="sample:azure-conv",
        policies=["nested-wait:thresholds=8/1,ends=64", "sarathi"],
        limit=200,
        seeds=1,
        rate=4.0,
        batch_time=batch_time,
    )
    told = [note for note in run_engine_comparison(asked)[0].notes if "theory" in note]
    assert len(told) == 1 and "1 / 8" in told[0] and told[0].startswith("nested-wait:")
