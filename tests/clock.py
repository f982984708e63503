"""A loop whose clock jumps to the next timer when nothing is ready: a test of deadlines waits for none of them."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any
from unittest import mock


class _Jumps(selectors.DefaultSelector):
    """Asks the system without waiting; where nothing is ready, the time goes by at once."""

    now_s = 1000.0

    def select(self, timeout: float | None = None):
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.now_s += timeout
        return ready


def run(story: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run` on such a loop, whose clock `time.monotonic` reads too. For stories without threads and processes."""
    jumps = _Jumps()
    loop = asyncio.SelectorEventLoop(jumps)
    loop.time = lambda: jumps.now_s  # type: ignore[method-assign]
    with mock.patch.object(time, "monotonic", loop.time), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(story)


async def turned(times: int = 4) -> None:
    """Let the loop turn: what was written to a socket of this loop is read at its other end, before more is written."""
    for _ in range(times):
        await asyncio.sleep(0)
