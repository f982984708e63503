"""Runs calls from other threads on the gateway's event loop: the only way from operation to the data path.

`Snapshots` takes the gateway's numbers that way, at most twice a second, however many clients ask for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from evenstep.gateway.serve.gateway import Gateway

T = TypeVar("T")
_FRESH_S = 0.5
_ASK_S = 2.0


class ControlProxy:
    """Calls a gateway from another thread. Both methods raise RuntimeError if the gateway's loop is closed.

    Args:
        gateway: the gateway to operate, by its methods and those of its `pools` and `front`.
        loop: the loop it runs on.
    """

    def __init__(self, gateway: Gateway, loop: asyncio.AbstractEventLoop) -> None:
        self.gateway, self._loop = gateway, loop

    def tell(self, call: Callable[..., Any], *args: Any) -> None:
        """Run a call on the gateway's loop later, and return at once; if it fails, that loop logs the exception."""
        self._loop.call_soon_threadsafe(call, *args)

    def ask(self, call: Callable[..., T], *args: Any) -> Future[T]:
        """Run a call on the gateway's loop soon, unless cancelled before; returns a future with its result or exception.

        Await it with `asyncio.wrap_future`. To block on it in the gateway's own thread is a deadlock.
        """
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(call(*args))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer


class Snapshots:
    """The latest snapshot, renewed when it is older than half a second. Use it on the event loop of the operation thread.

    Args:
        proxy: calls the gateway.
        more: returns numbers of operation itself, which are added to those of the data path.
    """

    def __init__(self, proxy: ControlProxy, more: Callable[[], dict[str, Any]]) -> None:
        self._proxy, self._more = proxy, more
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
                        answer = self._proxy.ask(self._proxy.gateway.snapshot)
                        self._found = await asyncio.wrap_future(answer)
                    self._made_s = time.monotonic()
                except TimeoutError:
                    if not self._found:
                        raise
        found = {**self._found, "gateway": {**self._found["gateway"], **self._more()}}
        return found, time.monotonic() - self._made_s
