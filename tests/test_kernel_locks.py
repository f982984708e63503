"""One process compiles a kernel, the others wait for it and load it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evenstep import kernel_cache
from evenstep.kernel_locks import Locks

HOLD = """
import sys
from pathlib import Path
from evenstep.kernel_locks import Locks
locks = Locks(Path(sys.argv[1]))
locks.take("loop")
print("held", flush=True)
sys.stdin.read(1)
locks.release("loop")
print("released", flush=True)
sys.stdin.read(1)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock of the kernel ``loop`` until it reads a letter, and ends at the next."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def released(process):
    process.stdin.write("x")
    process.stdin.flush()
    assert process.stdout.readline() == "released\n"


def killed(process):
    process.kill()
    process.wait()


@pytest.mark.parametrize("end", [released, killed])
def test_a_lock_is_ours_when_the_process_that_holds_it_lets_it_go_or_dies(tmp_path, other, end):
    said, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            end(other)

    locks = Locks(tmp_path / "lock", lambda: said.append("waits"), pause)
    locks.take("another")
    assert not said
    locks.take("loop")
    assert said == ["waits"] and len(pauses) == 3


def test_a_process_that_holds_a_lock_for_ever_is_waited_for_as_long_as_patience_lasts(tmp_path, other):
    pauses = []
    Locks(tmp_path / "lock", pause=pauses.append).take("loop")
    assert sum(pauses) == pytest.approx(600.0, abs=0.1)


def test_a_kernel_compiled_for_two_signatures_is_let_go_after_the_second(tmp_path):
    locks = Locks(tmp_path / "lock")
    locks.take("loop")
    locks.take("loop")
    locks.release("loop")
    ask = "import sys; from pathlib import Path; from evenstep.kernel_locks import Locks; Locks(Path(sys.argv[1]), lambda: sys.exit(3)).take('loop')"
    command = [sys.executable, "-c", ask, str(tmp_path / "lock")]
    assert subprocess.run(command, check=False).returncode == 3
    locks.release("loop")
    assert subprocess.run(command, check=False).returncode == 0
    locks.release("loop")  # nobody holds it: nothing happens


@pytest.mark.parametrize("file", [None, "no/such/folder/lock"])
def test_without_a_folder_nothing_is_locked(tmp_path, file):
    locks = Locks(None if file is None else tmp_path / file, lambda: pytest.fail("waited"))
    locks.take("loop")
    locks.release("loop")


def test_the_file_is_where_the_kernels_are(tmp_path):
    assert kernel_cache.Place(False).lock_file() is None
    assert kernel_cache.Place(False, tmp_path).lock_file() == tmp_path / "compiling.lock"
    assert kernel_cache.Place(True).lock_file() == kernel_cache.ROOT / "__pycache__" / "compiling.lock"


KERNEL = """
from evenstep import compiled


@compiled.declared(compiled.FLOAT(compiled.FLOAT))
def twice(x):
    {text}
"""
COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
from evenstep import kernel_cache
kernel_cache.announce.say = lambda line: print(line, flush=True)
from evenstep import compiled
from numba.core import event

class Slow(event.Listener):
    def on_start(self, event):
        if sys.argv[2] == "slow":
            sys.stdin.read(1)
    def on_end(self, event): ...

event.register("numba:compile", Slow())
try:
    from toy_kernel import twice
    print(twice(2.0), sum(twice.stats.cache_misses.values()), flush=True)
except Exception as error:
    print(type(error).__name__, flush=True)
sys.stdin.read(1)
"""


def compiling(folder, pace):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kernels")}
    command = [sys.executable, "-c", COMPILE, str(folder), pace]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


@pytest.mark.slow
def test_of_two_processes_that_need_a_kernel_one_compiles_and_the_other_loads(tmp_path):
    (tmp_path / "toy_kernel.py").write_text(KERNEL.format(text="return x + x"))
    with compiling(tmp_path, "slow") as first:
        assert first.stdout.readline().startswith("compiling kernels")
        with compiling(tmp_path, "usual") as second:
            assert second.stdout.readline().startswith("another process compiles kernels")
            assert first.communicate("xx", timeout=60)[0] == "4.0 1\n"
            assert second.communicate("x", timeout=60)[0] == "4.0 0\n"


@pytest.mark.parametrize("text", ["return x + x", pytest.param("return x.no_such_thing", marks=pytest.mark.slow)])
def test_a_process_that_dies_or_fails_while_it_compiles_leaves_the_kernel_to_the_next(tmp_path, text):
    (tmp_path / "toy_kernel.py").write_text(KERNEL.format(text=text))
    with compiling(tmp_path, "slow") as first:
        assert first.stdout.readline().startswith("compiling kernels")
        with compiling(tmp_path, "usual") as second:
            assert second.stdout.readline().startswith("another process compiles kernels")
            if "no_such_thing" in text:
                first.stdin.write("x")  # it fails, and lives on
                first.stdin.flush()
                assert first.stdout.readline() == "TypingError\n"
                assert second.communicate("x", timeout=60)[0] == "TypingError\n"
            else:
                killed(first)
                assert second.communicate("x", timeout=60)[0] == "4.0 1\n"
            first.kill()
