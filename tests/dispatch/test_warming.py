"""Before the first request everything compiled is there."""

from __future__ import annotations

import pytest

from evenstep import compiled
from evenstep.dispatch.fleet import prefixes_kernel
from evenstep.dispatch.requests import sending
from evenstep.dispatch.rounds import deciding_kernel
from evenstep.dispatch.rounds import projections_kernel as ahead_kernel
from evenstep.dispatch.warming import warm
from evenstep.errors import InputError


@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled")
def test_every_compiled_part_of_a_round_was_called_once():
    warm("best")
    warm("br-h:horizon=4", predictor="survival")
    asleep = {
        name
        for module in (ahead_kernel, deciding_kernel, prefixes_kernel, sending)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures") and not kernel.signatures
    }
    parts_of_others = {
        "age_of", "enter", "project", "add_expected", "fill_between", "steps_between", "show_waiting", "show_workers",
        "free_slots", "lightest_first", "offer", "window", "count", "add_wait", "may_move", "moves",
        "check",
    }  # fmt: skip
    assert asleep <= parts_of_others


def test_rules_that_are_none_are_refused():
    with pytest.raises(InputError, match="nosuch"):
        warm("nosuch")
