"""The door to numba."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from evenstep import compiled


@dataclass(frozen=True)
class Parameters:
    horizon: int = 3
    discount: float = 0.5
    exact: bool = True
    bound: float | None = None
    order: Literal["margin", "free-slots"] = "free-slots"


@dataclass(frozen=True)
class Numbers:
    few: tuple[float, ...] = (2.0, 0.5)
    none: tuple[float, ...] = ()
    more: int = 7


@dataclass(frozen=True)
class Words:
    name: str = "free text"


def test_fields_become_numbers_in_the_order_they_are_declared():
    found = compiled.parameters(Parameters())
    assert found.dtype == np.float64
    assert found[:3].tolist() == [3.0, 0.5, 1.0]
    assert math.isnan(found[3])
    assert found[4] == 1.0


def test_a_tuple_of_numbers_is_led_by_its_length():
    assert compiled.parameters(Numbers()).tolist() == [2.0, 2.0, 0.5, 0.0, 7.0]


def test_a_choice_that_cannot_be_numbered_is_refused():
    with pytest.raises(TypeError, match="not a Literal"):
        compiled.parameters(Words())


def test_the_mode_says_what_runs_the_kernels():
    assert compiled.mode().startswith("numba ")


def test_without_numba_kernels_are_plain_python_with_the_same_bits():
    code = (
        "from evenstep import compiled, streams, streams_kernel as k; import numpy as np\n"
        "np.seterr(over='ignore')\n"
        "assert compiled.mode() == 'plain Python (slow)'\n"
        "print(float(k.uniform(7, streams.stream_number('p2c'), 3, 1)) == streams.uniform(7, 'p2c', 3, 1))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code], env={"EVENSTEP_PLAIN": "1"}, capture_output=True, text=True, check=False
    )
    assert seen.stdout == "True\n", seen.stderr


def test_the_kernel_of_a_policy_is_its_neighbour(tmp_path):
    from evenstep import names

    (tmp_path / "near.py").write_text("class Near:\n    pass\n\npolicy = Near\n")
    (tmp_path / "near_kernel.py").write_text("answer = 42\n")
    (tmp_path / "alone.py").write_text("class Alone:\n    pass\n\npolicy = Alone\n")
    near = names.build("routing", {"name": str(tmp_path / "near.py")})
    kernel = compiled.kernel_of(near)
    assert kernel is not None and kernel.answer == 42
    assert compiled.kernel_of(near) is kernel
    assert compiled.kernel_of(names.build("routing", {"name": str(tmp_path / "alone.py")})) is None


def test_rooms_whose_kernels_call_others_are_known_so_that_nothing_stale_is_run():
    root = Path(compiled.__file__).parent
    for kernel in root.glob("*/*_kernel.py"):
        called = re.findall(r"^from evenstep\.(\w+)\.\w+_kernel import", kernel.read_text(), re.MULTILINE)
        assert set(called) <= {kernel.parent.name, *compiled.CALLED.get(kernel.parent.name, ())}, kernel


def test_what_has_no_file_has_no_kernel():
    assert compiled.kernel_of(3) is None
