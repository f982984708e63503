"""The compiled function that reads chunks, with random bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.engines.fuzz_templates import fuzz


def test_random_bytes_are_read_as_a_regular_expression_reads_them():
    taken, left = fuzz(10_000, seed=1)
    assert taken > 2_000 and left > 2_000


@pytest.mark.slow
def test_a_million_random_inputs_stay_inside_their_buffers():
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.fuzz_templates", "1000000", "2", "11"],
        env=os.environ | {"EVENSTEP_CHECKED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
