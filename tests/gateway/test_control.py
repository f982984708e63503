"""Calls from another thread reach a gateway on its own loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from evenstep.errors import InputError
from evenstep.gateway.operate.control import ControlProxy


class Asked:
    """Notes who asked, and on which thread."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def remove_worker(self, name: str, drain: bool) -> None:
        self.seen.append((name, threading.get_ident()))
        if name == "nobody":
            raise InputError("workers", "name", name, "a known worker")

    def not_ready(self) -> str:
        return "warming"


def test_what_is_asked_runs_on_the_gateways_loop_and_is_answered():
    async def scenario() -> None:
        gateway, loop = Asked(), asyncio.get_running_loop()
        proxy = ControlProxy(gateway, loop)  # type: ignore[arg-type]
        here = threading.get_ident()

        def from_outside() -> str:
            proxy.tell(gateway.remove_worker, "a", True)
            with pytest.raises(InputError, match="nobody"):
                proxy.ask(gateway.remove_worker, "nobody", True).result(5)
            return proxy.ask(gateway.not_ready).result(5)

        assert await asyncio.to_thread(from_outside) == "warming"
        assert gateway.seen == [("a", here), ("nobody", here)]

    asyncio.run(scenario())


def test_a_call_whose_caller_has_given_up_is_not_run_and_nothing_is_logged():
    async def scenario() -> None:
        gateway, loop = Asked(), asyncio.get_running_loop()
        failed: list[object] = []
        loop.set_exception_handler(lambda _, about: failed.append(about))
        answer = ControlProxy(gateway, loop).ask(gateway.remove_worker, "a", True)  # type: ignore[arg-type]
        assert answer.cancel()
        await asyncio.sleep(0)
        assert (gateway.seen, failed) == ([], [])

    asyncio.run(scenario())
