"""What the BF-IO experiments share."""

from __future__ import annotations

from evenstep import names
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.names import parse


def test_every_strategy_is_in_paper_mode_without_our_age_bound():
    for spec in bf.POLICIES.values():
        policy = names.build("routing", {k: v for k, v in parse(spec).items() if k != "predictor"})
        assert getattr(policy, "age_limit", 0) == 0
        assert getattr(policy, "discount", 1) == 1


def test_a_window_of_0_needs_no_predictor():
    assert parse(bf.horizon(0)) == {"name": "bf-io", "discount": "1.0", "age_limit": "0"}
    assert parse(bf.horizon(40, 0.9))["predictor"] == "oracle"


def test_mean_loads_are_those_the_workload_was_chosen_for():
    trace = bf.burst(20_000).draw(0)
    output = trace.output_tokens.astype(float)
    load = 72 * (output * trace.prompt_tokens + output * (output - 1) / 2).sum() / output.sum()
    assert 60_000 < load < 85_000


def test_the_shared_constants_each_have_a_reason():
    found = bf.constants(bf.fleet(), 100)
    assert len({c.name for c in found}) == len(found)
    assert all(c.why for c in found)
