"""Every promise of a routing policy, checked on every policy of the room."""

from __future__ import annotations

import dataclasses

import pytest

from evenstep import names
from evenstep.config.fields import meaning
from evenstep.routing.checks import check

#: Policies with options that take other ways through their code than by default. `make test` tries every fourth.
OPTIONS = (
    "fcfs:fill=index",
    "jsq:ties=lowest",
    "power-of-d:d=3",
    "max-min:length=predicted,age_limit=0",
    "throttled:threshold=3,capability=1/0.5",
    "weighted:rule=round-robin",
    "weighted:weights=3/1",
    "consistent-hash:bound=1,virtual_nodes=3",
    "olb-lbmm:length=predicted,age_limit=2",
    "prefix-affinity:cached_share=0,balance_abs=2",
    "br-0:age_limit=0",
    "br-0:bypass=true",
    "br-0:pick=fit,order=margin,solver=bitset",
    "br-h:horizon=4,score=single,penalty=1",
    "br-h:horizon=4,pick=fit,order=margin",
    "vllm:score=waiting-4",
    "sglang:score=total-tokens",
    "dynamo:temperature=0.5",
)


@pytest.mark.parametrize(
    "text",
    [
        *names.members("routing"),
        *(pytest.param(text, marks=pytest.mark.slow if place % 4 else ()) for place, text in enumerate(OPTIONS)),
    ],
)
def test_a_policy_keeps_every_promise(text):
    policy = names.build("routing", names.parse(text))
    assert [f"{f.name}: {f.message}" for f in check(policy) if not f.passed] == []


@pytest.mark.parametrize("name", names.members("routing"))
def test_a_policy_says_what_it_is_and_every_option_what_it_means(name):
    kind = names.find("routing", name)
    assert (kind.__doc__ or "").strip().endswith(".")
    assert [f.name for f in dataclasses.fields(kind) if not meaning(kind).get(f.name)] == []
