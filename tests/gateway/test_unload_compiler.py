"""What the compiler held goes back, and comes again when it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CODE = """
import os
import numba
from evenstep.gateway.operate.compiling import unload_compiler

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

numba.njit(lambda x: x + 1)(1)
before, shed = resident(), unload_compiler()
assert shed > 0
print(before - resident(), numba.njit(lambda x: x + 2)(1))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not say what is in memory")
def test_memory_falls_by_tens_of_megabytes_and_kernels_still_compile():
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True, env=dict(os.environ))
    shed, answer = done.stdout.split()
    assert int(shed) > 20e6
    assert answer == "3"
