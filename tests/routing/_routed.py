"""Views written by hand, and what every test of a policy with two doors asserts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from evenstep.routing.checks import difference, kernel_call
from evenstep.routing.policies.best import Best
from evenstep.routing.rules import RuleView
from evenstep.routing.view import RoutingDecision, RoutingPolicy, RoutingView, broken_rule


def assert_doors_agree(policy: RoutingPolicy, view: RoutingView) -> None:
    """Both doors give equal bits and keep the contract; all slots are filled where KV memory does not bind."""
    plain = policy.route(view)
    assert broken_rule(view, plain) == ""
    call = kernel_call(policy, view)
    assert call is not None, "the policy has no kernel"
    assert difference(plain, call.decision(), view.memory) == ""
    if np.isinf(view.kv_free).all():
        assert (plain.worker >= 0).sum() == min(view.waiting_id.size, view.free_slots.sum())


def assert_equals_oracle(policy: RoutingPolicy, view: RoutingView, expected: RoutingDecision) -> None:
    """The rule decides in bits what its plain oracle does, through both doors."""
    assert_doors_agree(policy, view)
    assert difference(expected, policy.route(view), view.memory) == ""


def moment(load: list[float], free: list[int], waiting: list[float], **more: Any) -> RoutingView:
    """A view by hand: one group, nothing queued, no KV limit, waits of 1 s, mean wait 1 s, unless `more` says other."""
    G, W = len(load), len(waiting)
    ahead = more.pop("projections", [[x] for x in load])
    fields: dict[str, Any] = {
        "group": [0] * G,
        "queued": [0] * G,
        "free_slots": free,
        "running": [1] * G,
        "waiting_id": list(range(W)),
        "waiting_class": [0] * W,
        "waiting_key": list(range(W)),
        "memory": [],
        "queued_load": [0.0] * G,
        "load": load,
        "kv_free": [math.inf] * G,
        "seconds_per_token": [1e-7] * G,
        "waiting_load": waiting,
        "waited_s": [1.0] * W,
        "waiting_steps": [math.nan] * W,
        "projections": ahead,
        "growth": list(range(len(ahead[0]))),
        "cached_tokens": np.zeros((0, 0)),
    } | more
    counts = {
        "group",
        "queued",
        "free_slots",
        "running",
        "waiting_id",
        "waiting_class",
        "waiting_key",
        "memory",
    }
    arrays = {
        name: np.array(value, np.int64 if name in counts else np.float64)
        for name, value in fields.items()
        if name not in {"seed", "mean_wait_s"}
    }
    return RoutingView(
        decision=0,
        seed=fields.get("seed", 0),
        now_s=256.0,
        mean_wait_s=fields.get("mean_wait_s", 1.0),
        **arrays,
    )


def rule_view(view: RoutingView) -> RuleView:
    """The view as a rule sees it."""
    fields = {name: getattr(view, name) for name in RuleView._fields if name != "since_s"}
    return RuleView(**fields, since_s=view.now_s - view.waited_s)


def seen(view: RoutingView) -> RoutingView:
    """The view for a policy like `best` that has seen nothing yet."""
    return replace(view, memory=np.zeros(Best.memory_size, np.int64))


def routed(policy: RoutingPolicy, view: RoutingView) -> list[int]:
    """The answer, equal through both doors."""
    assert_doors_agree(policy, view)
    return policy.route(view).worker.tolist()


def assert_always_to_the_least(worker: list[int], view: RoutingView, load: np.ndarray, charge: np.ndarray) -> None:
    """Every admitted request, in order, went to a worker of smallest load among those where it fits."""
    load, free, kv = load.astype(float), view.free_slots.copy(), view.kv_free.copy()
    for request, g in enumerate(worker):
        if g >= 0:
            assert load[g] == load[(free > 0) & (kv >= view.waiting_load[request])].min()
            load[g], free[g], kv[g] = (
                load[g] + charge[request],
                free[g] - 1,
                kv[g] - view.waiting_load[request],
            )
