"""Before the first request everything compiled is there."""

from __future__ import annotations

import pytest

from evenstep import compiled
from evenstep.dispatch.fleet import prefixes
from evenstep.dispatch.requests import sending
from evenstep.dispatch.rounds import projecting, showing
from evenstep.dispatch.steps import counting
from evenstep.dispatch.warming import warm
from evenstep.errors import InputError


@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled")
def test_every_compiled_part_of_a_round_was_called_once():
    warm("best")
    warm("br-h:horizon=4", predictor="survival")
    asleep = {
        name
        for module in (counting, prefixes, projecting, sending, showing)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures") and not kernel.signatures
    }
    parts_of_others = {
        name
        for module in (counting, projecting, sending, showing)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "targetoptions") and kernel.targetoptions.get("forceinline")
    }
    others = {
        "enter",
        "project",
        "add_expected",
        "fill_between",
        "steps_between",
        "count",
        "add_wait",
        "check",
    }
    assert asleep <= parts_of_others | others


def test_rules_that_are_none_are_refused():
    with pytest.raises(InputError, match="nosuch"):
        warm("nosuch")
