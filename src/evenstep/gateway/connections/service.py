"""The types that a client's connection and the service behind it exchange."""

from __future__ import annotations

from typing import Protocol

import msgspec

from evenstep.gateway.connections.request_context import RequestContext


class Received(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A whole request from a client; `body` is without chunk framing."""

    context: RequestContext
    body: bytes
    name: str  #: its request id


class Job(Protocol):
    """The running request of a connection.

    `client_gone` is called when the client has left: stop, and send nothing. `client_resumed` is called when it reads again
    after `Client.paused`.
    """

    def client_gone(self) -> None: ...

    def client_resumed(self) -> None: ...

    def give_up(self) -> None:
        """Called when the gateway ends before the answer: send the client an error as the end of its answer, and stop."""
        ...
