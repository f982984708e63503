"""Further processes of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from evenstep.experiments.children import Child, can_start
from evenstep.kernel_locks import locks


@dataclass(frozen=True)
class Compile:
    """A job that takes the lock of a kernel, and keeps it."""

    label: str = "loop"

    def carry_out(self, shared: object) -> None:
        locks().take(self.label)


@pytest.mark.skipif(not can_start(), reason="this system passes no pipe to a new interpreter")
def test_a_process_that_waits_for_another_ones_kernel_ends_with_the_command_that_started_it(tmp_path, monkeypatch):
    """Ten short commands on a new machine left twelve processes, each waiting up to ten minutes to compile nothing."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first, second = Child(None), Child(None)
    try:
        first.pipe.send(Compile())
        assert first.pipe.recv().error is None, "it has the lock"
        second.pipe.send(Compile())
        assert not second.pipe.poll(0.5), "it waits for the lock"
        second.leave()
        assert second._process.wait(60) == 0
        assert first._process.poll() is None
    finally:
        first.end()
        second.end()
