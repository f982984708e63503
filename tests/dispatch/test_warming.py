"""Before the first request everything compiled is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evenstep import compiled
from evenstep.dispatch.fleet import prefixes
from evenstep.dispatch.rounds import projecting, showing, slots
from evenstep.dispatch.steps import lockstep
from evenstep.dispatch.warming import warm
from evenstep.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled")
def test_every_compiled_part_of_a_round_was_called_once():
    warm("best")
    warm("br-h:horizon=4", predictor="survival")
    asleep = {
        name
        for module in (lockstep, prefixes, projecting, showing, slots)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures") and not kernel.signatures
    }
    parts_of_others = {
        name
        for module in (lockstep, projecting, showing, slots)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "targetoptions") and kernel.targetoptions.get("forceinline")
    }
    others = {
        "enter",
        "project",
        "add_expected",
        "fill_between",
        "steps_between",
        "span",
        "count",
        "add_wait",
        "check",
    }
    assert asleep <= parts_of_others | others


AFTER = """
import gc
from numba.core.dispatcher import Dispatcher
from evenstep.dispatch.warming import warm
from tests.dispatch import storm

def kernels():
    made = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {
        f"{one.py_func.__module__}.{one.py_func.__name__}"
        for one in made
        if one.signatures and not one.targetoptions.get("forceinline") and one.py_func.__module__.startswith("evenstep")
    }

storm.POLICIES = ("best",)  # a reload warms what it loads

warm("best")
before = kernels()
for seed in range(6):
    busy = storm.Storm(seed, split=seed % 3 == 0, policy="best")
    for _ in range(800):
        busy.step()
    busy.calm()
print(len(before), *sorted(kernels() - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(compiled.numba is None, reason="nothing is compiled")
def test_nothing_that_happens_to_a_warm_dispatcher_compiles_anything():
    said = subprocess.run([sys.executable, "-c", AFTER], capture_output=True, text=True, check=False, cwd=ROOT)
    assert said.returncode == 0, said.stderr
    loaded, *compiled_late = said.stdout.split()
    assert int(loaded) > 20
    assert compiled_late == []


def test_rules_that_are_none_are_refused():
    with pytest.raises(InputError, match="nosuch"):
        warm("nosuch")
