"""What is used of numba beyond its documented interface: each part does what it is there for, with this numba."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenstep import compiled
from evenstep.errors import EvenstepError
from evenstep.gateway.config.config import refused_as

pytestmark = pytest.mark.skipif(compiled.numba is None, reason="there is no numba")
SOURCE = Path(compiled.__file__).parent


@compiled.declared(compiled.FLOAT(compiled.FLOAT) if compiled.numba is not None else None)
def doubled(x):
    return 2.0 * x


def as_it_is(x):
    return x


def test_an_entry_is_the_code_of_the_only_signature():
    entry = compiled.entry(doubled)
    assert entry is not doubled and entry(1.5) == 3.0


def test_an_address_lets_compiled_code_call_a_kernel():
    kind = compiled.numba.types.FunctionType(compiled.FLOAT(compiled.FLOAT))

    @compiled.declared(compiled.FLOAT(kind, compiled.FLOAT))
    def twice(function, x):
        return function(function(x))

    assert compiled.entry(twice)(compiled.address_of(doubled), 1.5) == 6.0


def test_compiled_code_cannot_write_what_is_sealed_and_allocates_only_where_it_says_so():
    def first(array):
        return compiled.sealed(array)[0]

    @compiled.allocating
    def ones(count):
        return np.ones(count).sum()

    @compiled.jit
    def counted(count):
        return ones(count)

    @compiled.jit
    def writes(array):
        compiled.sealed(array)[0] = 1.0

    made = compiled.numba.njit(**compiled.internals.KERNEL)(first)  # one that is loaded from disk shows no code
    assert made(np.ones(3)) == 1.0 and counted(3) == 3.0
    (text,) = made.inspect_llvm().values()
    assert "define" in text and "NRT_" not in text  # no reference is counted
    with pytest.raises(compiled.numba.TypingError):
        writes(np.ones(3))


def test_what_is_sealed_stays_alive_in_a_kernel_that_allocates():
    @compiled.allocating
    def total(count):
        array = np.ones(count)
        for _ in range(3):
            window = compiled.sealed(array)
            array[0] += window[1]
        return array.sum()

    assert [total(1000) for _ in range(100)] == [1003.0] * 100


def test_a_numba_that_lacks_a_part_is_one_error_with_its_name():
    said = r"numba: version is .*; expected 0\.62 to 0\.68, which have Dispatcher\.get_overload\. .* EVENSTEP_PLAIN=1"
    with pytest.raises(EvenstepError, match=said), refused_as("policy", "best"):  # the policy is not at fault
        compiled.internals.entry_of(3)
    with pytest.raises(KeyError, match="_unknown"):
        compiled.internals.kept(as_it_is, {"_unknown": True})(3)


OLD = """
import sys
from numba.core import caching
del caching.InTreeCacheLocator
from evenstep.cli.main import main
sys.exit(main(["compare", "sample:azure-conv", "--limit", "20"]))
"""


def test_a_command_with_such_a_numba_ends_with_that_error():
    ended = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.startswith("numba: version is "), ended.stdout + ended.stderr


def test_no_other_file_reaches_into_numba():
    inside = re.compile(r"numba\.core|_nrt|no_cpython_wrapper|made\._cache|get_overload|llvm_cfunc|fndesc")
    found = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if inside.search(path.read_text("utf-8"))]
    assert found == ["numba_internals.py"]
