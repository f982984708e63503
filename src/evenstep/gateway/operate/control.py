"""The operations of a running gateway: the one interface between the data path and all other code.

The data path implements `Control` and owns the loop that its methods run on. Admin API, scraping, discovery and signals
live elsewhere and come in through `ControlProxy`, which carries each call over to that loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from evenstep.engines.view import EngineSample
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve.ended import Sink

T = TypeVar("T")


class Control(Protocol):
    """A running gateway. Every method runs on its loop, returns at once and never waits."""

    def config(self) -> GatewayConfig:
        """The config in force."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Everything measured, as plain numbers.

        Returns:
            ``models``: model -> `Dispatcher.snapshot()`; ``gateway``: numbers of the data path itself.
        """
        ...

    def workers(self) -> list[Worker]:
        """Every worker of the gateway, including those that are leaving."""
        ...

    def not_ready(self) -> str:
        """The reason why the gateway should get no requests, or no more; empty if it is ready."""
        ...

    def notes(self) -> list[str]:
        """Problems that an operator should mend, although requests are served."""
        ...

    def add_worker(self, worker: Worker) -> None:
        """Add a worker, or change the description of a known one, even if it is leaving.

        Raises:
            InputError: it is not valid, or known with another role; nothing has changed then.
        """
        ...

    def remove_worker(self, name: str, drain: bool) -> None:
        """Remove a worker: its requests finish there (drain), or continue elsewhere at once.

        Raises:
            InputError: no worker has this name.
        """
        ...

    def sampling(self, names: tuple[str, ...]) -> None:
        """Note that the metrics of these workers, which are on one page, are about to be read."""
        ...

    def sampled(self, name: str, sample: EngineSample) -> None:
        """Take a reading of a worker's metrics; a reading of a worker that has left is ignored."""
        ...

    def counts_alone(self, name: str) -> None:
        """Rely on the gateway's own counts for a worker, whose engine has no metrics page."""
        ...

    def scrape_failed(self, name: str) -> None:
        """Note that a worker's metrics could not be read."""
        ...

    def reload(self, config: GatewayConfig) -> None:
        """Use another config from now on, except for its workers; see `add_worker` and `remove_worker`.

        Where it listens, its TLS files, how it speaks with engines it knows, and the decision log stay as they were.

        Raises:
            InputError: the config cannot be used; nothing has changed then.
        """
        ...

    def listen_to(self, sinks: tuple[Sink, ...], of_classes: tuple[Sink, ...] = ()) -> None:
        """Report each request that ends, from now on, to these sinks alone; to `of_classes` only those with a class."""
        ...

    def drain(self) -> None:
        """Accept no new requests; let accepted ones finish."""
        ...


class ControlProxy:
    """Calls a gateway from another thread.

    Args:
        control: the gateway.
        loop: the loop it runs on.
    """

    def __init__(self, control: Control, loop: asyncio.AbstractEventLoop) -> None:
        self.control, self._loop = control, loop

    def tell(self, call: Callable[..., Any], *args: Any) -> None:
        """Run a call on the gateway's loop later, without waiting for it."""
        self._loop.call_soon_threadsafe(call, *args)

    def ask(self, call: Callable[..., T], *args: Any) -> Future[T]:
        """Run a call on the gateway's loop; returns a future with its result or exception."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*args))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer
