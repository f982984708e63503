"""Runs calls from other threads on the gateway's event loop: the only way from operation to the data path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from evenstep.gateway.serve.gateway import Gateway

T = TypeVar("T")


class ControlProxy:
    """Calls a gateway from another thread. Both methods raise RuntimeError if the gateway's loop is closed.

    Args:
        gateway: its methods, and those of its `pools` and `front`, may be called.
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
