"""The gateway's numbers, taken at most twice a second, however many clients ask for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from evenstep.gateway.operate.control import ControlProxy

_FRESH_S = 0.5
_ASK_S = 2.0


class Snapshots:
    """The latest snapshot, renewed when it is older than half a second. Use it on the event loop of the operation thread.

    Args:
        door: calls the gateway.
        more: returns numbers of operation itself, which are added to those of the data path.
    """

    def __init__(self, door: ControlProxy, more: Callable[[], dict[str, Any]]) -> None:
        self._door, self._more = door, more
        self._found: dict[str, Any] = {}
        self._made_s = float("-inf")
        self._turn = asyncio.Lock()

    async def latest(self) -> tuple[dict[str, Any], float]:
        """A snapshot, and its age in seconds. If the data path does not answer within 2 seconds, it is the last one.

        It is as `Gateway.snapshot` gives it, with the numbers of operation added to ``gateway``. Raises TimeoutError if the
        data path has not answered yet at all.
        """
        async with self._turn:
            if time.monotonic() - self._made_s > _FRESH_S:
                try:
                    async with asyncio.timeout(_ASK_S):
                        answer = self._door.ask(self._door.gateway.snapshot)
                        self._found = await asyncio.wrap_future(answer)
                    self._made_s = time.monotonic()
                except TimeoutError:
                    if not self._found:
                        raise
        found = {**self._found, "gateway": {**self._found["gateway"], **self._more()}}
        return found, time.monotonic() - self._made_s
