"""The interface between a client's connection and the service that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from evenstep.gateway.config.config import Limits
from evenstep.gateway.serve.asking import Asking, ClientHeads

if TYPE_CHECKING:
    from evenstep.gateway.connections.client import Client


class Received(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A request, whole."""

    asking: Asking
    body: bytes
    name: str  #: its request id


class Job(Protocol):
    """The running request of a connection."""

    def client_gone(self) -> None: ...

    def client_resumed(self) -> None: ...

    def give_up(self) -> None:
        """The gateway ends before the answer: tell the client, and want nothing more."""
        ...


class Service(Protocol):
    """Answers requests; sets `Client.job` if the answer takes time."""

    limits: Limits
    heads: ClientHeads
    clients: set[Client]
    is_draining: bool

    def serve(self, request: Received, client: Client) -> None: ...

    def new_name(self) -> str: ...

    def told(self, status: int) -> None: ...
