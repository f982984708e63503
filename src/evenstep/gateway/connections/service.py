"""What a client's connection and the service that answers it hand each other."""

from __future__ import annotations

from typing import Protocol

import msgspec

from evenstep.gateway.connections.request_context import RequestContext


class Received(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A request, whole."""

    context: RequestContext
    body: bytes
    name: str  #: its request id


class Job(Protocol):
    """The running request of a connection."""

    def client_gone(self) -> None: ...

    def client_resumed(self) -> None: ...

    def give_up(self) -> None:
        """The gateway ends before the answer: tell the client, and want nothing more."""
        ...
