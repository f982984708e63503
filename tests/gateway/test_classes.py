"""Requests of a class keep to its targets, or do not."""

from __future__ import annotations

import pytest

from evenstep.gateway.config.sections import RequestClass
from evenstep.gateway.serve.ended import Attainment, Ended, Outcome

CLASSES = {"fast": RequestClass(weight=3.0, ttft_s=1.0, tpot_s=0.1), "any": RequestClass()}


def one(
    name: str, ttft_s: float = 0.5, tpot_s: float = 0.05, tokens: int = 11, outcome: Outcome = "complete", status: int = 200
) -> Ended:
    return Ended(
        "r",
        outcome,
        status,
        class_name=name,
        output_tokens=tokens,
        arrived_s=0.0,
        first_s=ttft_s,
        ended_s=ttft_s + tpot_s * (tokens - 1),
    )


@pytest.mark.parametrize(
    ("request_", "name", "met"),
    [
        (one("fast"), "fast", True),
        (one("fast", ttft_s=1.5), "fast", False),
        (one("fast", tpot_s=0.2), "fast", False),
        (one("fast", tokens=1), "fast", True),
        (one("fast", outcome="error"), "fast", False),
        (one("fast", ttft_s=float("nan")), "fast", False),
        (one("any", ttft_s=99.0), "any", True),
        (one("any", outcome="error"), "any", False),
        (one("any", outcome="error", status=503), "any", False),
        (one("any", outcome="refused", status=429), "any", False),
    ],
)
def test_a_request_is_counted_by_whether_it_kept_to_its_targets(request_, name, met):
    found = Attainment(CLASSES)
    found.ended(request_)
    assert found.counted == {(name, met): 1}


def test_a_client_that_leaves_and_a_request_without_class_are_not_counted():
    found = Attainment(CLASSES)
    for request in (one(""), one("other"), one("fast", outcome="cancelled")):
        found.ended(request)
    assert not found.counted


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_no_engine_can_serve_is_not_counted(status):
    """The engine's answer to a prompt that is too long counted against the service, the gateway's own did not."""
    found = Attainment(CLASSES)
    found.ended(one("fast", outcome="error", status=status))
    assert not found.counted


def test_counts_and_weights_are_those_of_the_classes_in_force():
    found = Attainment(CLASSES)
    for request in (one("fast"), one("fast", ttft_s=9.0), one("fast")):
        found.ended(request)
    assert found.counts()[:2] == [
        {"class": "fast", "met": "true", "value": 2},
        {"class": "fast", "met": "false", "value": 1},
    ]
    found.reload({"fast": RequestClass(weight=1.0, ttft_s=10.0)})
    assert found.weights() == {"fast": 1.0}
    found.ended(one("fast", ttft_s=9.0))
    assert found.counts()[0]["value"] == 3


def test_a_request_counts_for_its_class_also_after_a_reload_that_inserts_another_one():
    found = Attainment(CLASSES)
    found.reload({"new": RequestClass(), **CLASSES})
    found.ended(one("fast"))
    assert found.counted == {("fast", True): 1}
