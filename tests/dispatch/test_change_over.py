"""A dispatcher that begins in plain Python and changes over to compiled code in the middle of its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden import logs

ROOT = Path(__file__).parents[2]
RECORD = """
import sys
from pathlib import Path
from evenstep import kernel_cache
kernel_cache.begins_plain = True
from evenstep import compiled, late
from evenstep.dispatch.rounds import slots
from tests.dispatch.storm import Storm
from tests.golden import logs

seed, moment, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
step = logs.Busy.step
steps = []

def stepped(storm):
    steps.append(storm)
    if len(steps) == moment:
        with late.in_compiled_code():
            pass
        late.change_over()
    step(storm)

logs.Busy.step = stepped
print(compiled.mode(), type(slots._send).__name__)
logs.record(seed, folder)
print(compiled.mode(), type(slots._send).__name__)
"""


@pytest.mark.parametrize(("seed", "moment"), [(1, 250), pytest.param(0, 400, marks=pytest.mark.slow)])
def test_a_log_recorded_over_a_change_has_the_bytes_of_one_recorded_compiled(tmp_path, seed, moment):
    changed, compiled = tmp_path / "changed", tmp_path / "compiled"
    changed.mkdir()
    compiled.mkdir()
    logs.record(seed, compiled)
    command = [sys.executable, "-c", RECORD, str(seed), str(moment), str(changed)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert said.returncode == 0, said.stderr
    before, after = said.stdout.splitlines()
    assert before == "plain Python (slow) until they are compiled Late"
    assert after.startswith("numba ") and not after.endswith(" Late")
    name = logs.name_of(seed)
    assert (changed / name).read_bytes() == (compiled / name).read_bytes()
