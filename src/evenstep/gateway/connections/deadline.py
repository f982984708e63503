"""Deadlines that move often and are rarely reached.

If the process was held up (stopped, starved of CPU), many deadlines are due at once when it goes on, while what would have
moved them waits in its sockets. So a deadline that has come is looked at again after the sockets were read.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

NEVER = math.inf
_AGAIN_S = 0.001  # above 0: the loop reads its sockets before it looks at the timer


class Deadline:
    """A time at which a callback runs. Moving it to a later time costs one assignment.

    Args:
        loop: the running loop, whose timers are used.
        reached: the callback, called each time the deadline is reached; `at` is `NEVER` then.

    Attributes:
        at: seconds of `time.monotonic`; `NEVER` = no deadline. `NEVER`, or if it is finite a later time, may be
            assigned directly; any other time needs `set`.
    """

    __slots__ = ("_armed", "_handle", "_loop", "_reached", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, reached: Callable[[], None]) -> None:
        self.at = NEVER
        self._loop, self._reached = loop, reached
        self._armed = NEVER
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: float) -> None:
        """Move the deadline to this time, in seconds of `time.monotonic`, earlier or later."""
        self.at = at
        if at < self._armed:
            self._arm(at)

    def end(self) -> None:
        """Cancel the deadline for good, and drop its callback so that its owner can be freed."""
        self.at = self._armed = NEVER
        self._reached = lambda: None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, at: float) -> None:
        """Set the loop's timer to this time, in place of the timer before."""
        if self._handle is not None:
            self._handle.cancel()
        self._armed = at
        self._handle = self._loop.call_later(max(0.0, at - time.monotonic()), self._look)

    def _look(self, is_second: bool = False) -> None:
        """The timer has fired: set it again if the deadline has moved, else call the callback at the second look."""
        self._handle, self._armed = None, NEVER
        if self.at == NEVER:
            return
        if self.at > time.monotonic():
            self._arm(self.at)
        elif is_second:
            self.at = NEVER
            self._reached()
        else:
            self._armed = self.at
            self._handle = self._loop.call_later(_AGAIN_S, self._look, True)
