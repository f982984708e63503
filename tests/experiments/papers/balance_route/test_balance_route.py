"""What the BalanceRoute experiments share."""

from __future__ import annotations

from evenstep.experiments.contenders import contenders
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.experiments.reproduce import Setting


def test_every_method_can_be_built_and_has_no_age_bound():
    for one in contenders(list(br.METHODS.values())):
        policy, _ = one.build()
        assert getattr(policy, "age_limit", 0) == 0


def test_a_trace_of_the_users_takes_the_place_of_both_workloads():
    assert br.kinds(Setting(traces=("x.csv",))) == (br.TRACE,)
    assert br.kinds(Setting()) == (br.HEAVY, br.NEAR_CAP)
    assert set(br.MISSING) == {br.HEAVY, br.NEAR_CAP, br.TRACE}


def test_pool_and_requests_grow_with_the_workers():
    assert (br.fleet(4).pool, br.fleet(16).pool) == (16, 64)
    assert br.requests(Setting(), 16) == 4 * br.requests(Setting(), 4)


def test_constants_name_only_the_workloads_that_are_used():
    named = {c.name for c in br.constants(Setting(), (8,), (br.HEAVY,))}
    assert "heavy" in named
    assert "near cap" not in named
