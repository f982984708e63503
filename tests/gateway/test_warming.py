"""A first decision finds everything compiled."""

from __future__ import annotations

import sys

import pytest

from evenstep.errors import InputError
from evenstep.gateway.warming import warm


@pytest.mark.parametrize("policy", ["jsq", "br-0:bypass=true", "round-robin"])
def test_every_kind_of_policy_can_be_warmed(policy):
    warm(policy, "")
    assert "evenstep.routing.least_load_kernel" in sys.modules


def test_a_policy_that_is_none_is_told():
    with pytest.raises(InputError, match="jsk"):
        warm("jsk", "")
