"""Kernels that are not compiled give the same runs, slowly, and say that they are not compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from evenstep import Cluster, Trace, compiled, names, simulate
from evenstep.predict.oracle import Oracle
rng = np.random.default_rng(1)
trace = Trace(rng.integers(1, 500, 90), rng.integers(1, 30, 90), arrival_s=np.sort(rng.random(90)))
for text in ("fcfs", "jsq", "random", "br-0", "br-h:horizon=4", "bf-io:horizon=4"):
    policy = names.build("routing", names.parse(text))
    for arrivals in ("saturated", "timed"):
        cluster = Cluster(4, 4, pool=20, arrivals=arrivals, groups=(1, 3))
        run = simulate(trace, policy, cluster=cluster, predictor=Oracle(), door="compiled")
        print(text, arrivals, run.digest, run.totals)
print(compiled.mode())
"""


@pytest.mark.slow
def test_plain_python_gives_the_digests_of_compiled_kernels():
    printed = [
        subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM],
            env={**os.environ, "EVENSTEP_PLAIN": plain},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for plain in ("0", "1")
    ]
    assert printed[0][:-1] == printed[1][:-1] and len(printed[0]) == 13
    assert printed[0][-1].startswith("numba") and printed[1][-1] == "plain Python (slow)"
