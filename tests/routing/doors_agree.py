"""What every test of a policy with two doors asserts."""

from __future__ import annotations

from evenstep.routing.doors import difference, through_kernel
from evenstep.routing.view import RoutingPolicy, RoutingView, broken_rule


def assert_doors_agree(policy: RoutingPolicy, view: RoutingView) -> None:
    plain = policy.route(view)
    assert broken_rule(view, plain) == ""
    kernel = through_kernel(policy, view)
    assert kernel is not None, "the policy has no kernel"
    assert difference(plain, kernel, view.memory) == ""
