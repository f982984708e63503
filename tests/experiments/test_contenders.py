"""What a person asks to be compared."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from evenstep.errors import InputError
from evenstep.experiments.contenders import contender, contenders
from evenstep.predict.oracle import Oracle
from evenstep.routing.policies.jsq import JSQ


@dataclass(frozen=True)
class Ahead:
    """A policy that looks ahead."""

    horizon: int = 3

    def route(self, view): ...


def test_a_spec_string_and_the_same_mapping_are_the_same_contender():
    spec = contender("jsq:ties=lowest")
    same = contender({"name": "jsq", "ties": "lowest"})
    assert spec == same
    assert spec.name == "jsq:ties=lowest"
    assert spec.build()[0] == JSQ(ties="lowest")


def test_the_predictor_is_read_by_the_host_and_never_by_the_policy():
    found = contender("br-h:horizon=4,predictor=oracle")
    policy, predictor = found.build()
    assert policy.horizon == 4
    assert isinstance(predictor, Oracle)


def test_options_of_the_predictor_stand_behind_a_dot():
    found = contender("br-h:predictor=oracle,predictor.limit=5")
    assert found.predictor == {"name": "oracle", "limit": "5"}
    assert contender({"name": "br-h", "predictor": {"name": "oracle", "limit": 5}}).name == (
        "br-h:predictor=oracle,predictor.limit=5"
    )


def test_a_policy_itself_or_with_its_predictor_is_a_contender():
    assert contender(JSQ()).build() == (JSQ(), None)
    policy, predictor = contender((Ahead(), "oracle")).build()
    assert policy == Ahead() and isinstance(predictor, Oracle)


def test_an_object_without_a_repr_has_the_name_of_its_class():
    """Tables and errors called it ``<__main__.Mine object at 0x7f7df7424690>``."""

    class Mine:
        def route(self, view): ...

    first = Mine()
    assert [one.name for one in contenders([first, "jsq", Mine(), (Mine(), "oracle")])] == [
        "Mine",
        "jsq",
        "Mine 2",
        "Mine with oracle",
    ]
    with pytest.raises(InputError, match="policy is 'Mine'; expected each policy once"):
        contenders([first, first])


def test_an_object_that_has_only_the_name_of_its_class_gives_way_to_a_policy_of_that_name_in_any_order():
    """After the object, ``jsq`` was refused as a policy given twice; before it, the object was ``jsq 2``."""
    mine = type("jsq", (), {"route": lambda self, view: ...})()
    for asked in ([mine, "jsq"], ["jsq", mine]):
        assert {one.name: one.policy for one in contenders(asked)} == {"jsq": {"name": "jsq"}, "jsq 2": mine}
    assert [one.name for one in contenders([mine, "jsq"])] == ["jsq 2", "jsq"]


@pytest.mark.parametrize("asked", [Ahead(), "br-h:horizon=20"])
def test_looking_ahead_needs_a_predictor_and_the_error_names_one(asked):
    with pytest.raises(InputError, match="Name its predictor, e.g. predictor=oracle"):
        contenders([asked])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "policies is 'empty'; expected at least one policy"),
        (["jqs"], "Did you mean jsq?"),
        (["jsq:tise=lowest"], "Did you mean ties?"),
        ([{"ties": "lowest"}], "name is 'missing'"),
        (["jsq", 3], "expected an object with a method `route(view)`"),
        ([Ahead], "policy is 'type'; expected an object with a method `route(view)`. Write Ahead()."),
        ([(Ahead(), Oracle())], "predictor is 'Oracle'; expected a spec such as 'oracle'"),
        ([(Ahead(), "oracle", "jsq")], "expected a policy and its predictor. Put several policies in a list."),
        (["jsq:predictor.limit=5"], "predictor is 'missing'"),
        ([{"name": "jsq", "ties": {"a": 1}}], "ties is {'a': 1}; expected one of random, lowest"),
        (["br-h:predictor=orakel"], "expected a known predictor"),
    ],
)
def test_a_bad_request_is_found_before_anything_runs(asked, message):
    with pytest.raises(InputError) as caught:
        contenders(asked)
    assert message in str(caught.value)


def test_every_build_gives_a_fresh_predictor():
    found = contender("br-h:horizon=4,predictor=oracle")
    assert found.build()[1] is not found.build()[1]


@pytest.mark.parametrize("asked", [(Ahead(), {"x": 1}), {"name": "jsq", "predictor": {"x": 1}}])
def test_a_predictor_without_a_name_is_named(asked):
    with pytest.raises(InputError, match="predictor.name is 'missing'"):
        contender(asked)
