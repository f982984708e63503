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
        """The config in force: the one of the start, or of the last `reload`."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Everything measured, as plain numbers; a new mapping each time.

        Returns:
            ``models``: model -> `Dispatcher.snapshot()`; ``gateway``: numbers of the data path itself, as `metrics_page`
            takes them.
        """
        ...

    def workers(self) -> list[Worker]:
        """Every worker of the gateway, including those that are leaving or have not said which models they serve."""
        ...

    def not_ready(self) -> str:
        """The reason, as a clause, why the gateway should get no requests, or no more; empty if it is ready."""
        ...

    def notes(self) -> list[str]:
        """Problems that an operator should mend, although requests are served: a sentence for each, empty = no problem."""
        ...

    def add_worker(self, worker: Worker) -> None:
        """Add a worker, or change the description of a known one, even if it is leaving.

        Without `models` in its description, it is asked for them in the background, and gets no requests before.

        Args:
            worker: a single one with its name, as `Worker.each` returns it.

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
        """Note that the metrics of these workers are about to be read: they may miss requests sent from now on.

        Call it before each reading, and wait until it has run. Unknown names are ignored.
        """
        ...

    def sampled(self, name: str, sample: EngineSample) -> None:
        """Take a reading of a worker's metrics, announced by `sampling`; one of a worker that has left is ignored."""
        ...

    def counts_alone(self, name: str) -> None:
        """Rely on the gateway's own counts for a worker, whose engine has no metrics page, until the first `sampled`."""
        ...

    def scrape_failed(self, name: str) -> None:
        """Note that a worker's metrics could not be read: its last reading ages; a prefiller counts as full."""
        ...

    def reload(self, config: GatewayConfig) -> None:
        """Use another config from now on, except for its workers; see `add_worker` and `remove_worker`.

        Keys of workers are read again, and its `slots` hold for workers that have none of their own.

        Where it listens, its TLS files, how it speaks with engines it knows, and the decision log stay as they were. Load
        the kernels of its policy first, since a dispatcher is built with it. Workers are asked again for their models.

        Raises:
            InputError: the config cannot be used; nothing has changed then.
        """
        ...

    def listen_to(self, sinks: tuple[Sink, ...], of_classes: tuple[Sink, ...] = ()) -> None:
        """Report each request that ends, from now on, to these sinks alone, in place of all sinks before.

        Args:
            sinks: get every request.
            of_classes: get, before these, only the requests with a class.
        """
        ...

    def drain(self) -> None:
        """Accept no new requests, and let accepted ones finish; it returns at once. A second call does nothing."""
        ...


class ControlProxy:
    """Calls a gateway from another thread. Both methods raise RuntimeError if the gateway's loop is closed.

    Args:
        control: the gateway.
        loop: the loop it runs on.
    """

    def __init__(self, control: Control, loop: asyncio.AbstractEventLoop) -> None:
        self.control, self._loop = control, loop

    def tell(self, call: Callable[..., Any], *args: Any) -> None:
        """Run a call on the gateway's loop later, without waiting for it; the loop logs its exception."""
        self._loop.call_soon_threadsafe(call, *args)

    def ask(self, call: Callable[..., T], *args: Any) -> Future[T]:
        """Run a call on the gateway's loop soon; returns a future with its result or exception.

        Await it with `asyncio.wrap_future`; never block on it in the gateway's own thread.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*args))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer
