"""A request in the lane, as its model sees it: no more than numbers, until something is not as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenstep.dispatch.commands import Continue, Fail, Reject, SendDecode, SendPrefill
from evenstep.gateway.attached import Attached
from evenstep.gateway.client import Client

if TYPE_CHECKING:
    from evenstep.gateway.exchange import Exchange
    from evenstep.gateway.lane import Lane


class Passage:
    """One place for a request in the lane; what a model calls of an `Exchange` turns it into one, but for its sending.

    Args:
        lane: whose.
        place: its row in the lane's tables.
    """

    __slots__ = ("_lane", "_place")

    def __init__(self, lane: Lane, place: int) -> None:
        self._lane, self._place = lane, place

    @property
    def client(self) -> Client:
        """Who asks."""
        return self._exchange().client

    def decode(self, command: SendDecode, attached: Attached) -> None:
        """Send the request."""
        lane, place = self._lane, self._place
        if not lane.sends(place, lane.kind_of(place), attached, command.leg, command.row):
            self._exchange().decode(command, attached)

    def prefill(self, command: SendPrefill, attached: Attached) -> None:
        """Send the prefill leg."""
        self._exchange().prefill(command, attached)

    def resume(self, command: Continue, attached: Attached) -> None:
        """Go on after what the client has."""
        self._exchange().resume(command, attached)

    def abort(self, number: int) -> None:
        """Close a leg."""
        self._exchange().abort(number)

    def release(self) -> None:
        """No decode leg will fetch what the prefiller keeps."""
        self._exchange().release()

    def reject(self, command: Reject) -> None:
        """Answer with an error."""
        self._exchange().reject(command)

    def fail(self, command: Fail) -> None:
        """End it with an error."""
        self._exchange().fail(command)

    def _exchange(self) -> Exchange:
        return self._lane.hand_over(self._place)
