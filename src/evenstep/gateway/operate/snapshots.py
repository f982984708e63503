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
    """The latest snapshot, renewed when it is older than half a second. Lives on the loop of operation.

    Args:
        door: the way to the gateway.
        more: numbers of operation itself, added to the data path's own.
    """

    def __init__(self, door: ControlProxy, more: Callable[[], dict[str, Any]]) -> None:
        self._door, self._more = door, more
        self._found: dict[str, Any] = {}
        self._made_s = float("-inf")
        self._turn = asyncio.Lock()

    async def latest(self) -> tuple[dict[str, Any], float]:
        """A snapshot and its age in seconds; an old one if the data path does not answer within 2 seconds.

        It is as `Gateway.snapshot` gives it, with the numbers of operation added to ``gateway``.

        Raises:
            TimeoutError: it has never answered so far.
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
