"""Whether requests of believed lengths fit the memory until each of them has finished: eq. 3 of Interval scheduling.

A request that runs in every iteration from now on holds ``base + j`` KV tokens in the j-th of them, and is believed to need
``remaining`` of them. Memory peaks in the last iteration of one of them, so a set of requests fits if, for every r among
the remaining iterations::

    sum over those with remaining >= r of (base + r) <= capacity

`feasible_kernel` is the compiled twin.

Source: Interval scheduling eq. 3, with two readings: who has outgrown its believed length is believed to need one more
iteration (literally it would count nothing), and a prefill that is cut into chunks counts whole from its start.
"""

from __future__ import annotations

import math

from evenstep.scheduling.view import EngineView

#: The believed length of a request of which nothing is believed: as long as memory allows.
UNKNOWN = math.inf


def base(view: EngineView, request: int) -> int:
    """KV tokens a request holds before the first of its remaining iterations, room for a started block included.

    One that is not through its prefill is taken to have run all of it but the last token.
    """
    held = int(view.prefilled[request]) + view.hold_produced + view.block_tokens - 1
    return held if view.decoding[request] else held + int(view.left[request]) - 1


def remaining(view: EngineView, request: int, length: float) -> int:
    """Iterations a request is believed to need, if its output is `length` tokens; no more than the memory holds alone."""
    produced, more = int(view.produced[request]), 0 if view.decoding[request] else view.first_decoded
    most = view.kv_capacity - base(view, request)
    return max(int(min(length - produced + more, most)), 1)


class Ahead:
    """Requests in order of their remaining iterations, ties as they were added.

    Args:
        view: the engine.
        capacity: KV tokens they may hold together; default the engine's.
    """

    def __init__(self, view: EngineView, capacity: int | None = None) -> None:
        self.view = view
        self.capacity = view.kv_capacity if capacity is None else capacity
        self.entries: list[tuple[int, int, int]] = []  # remaining, running number, base

    def add(self, request: int, length: float) -> None:
        """One more request."""
        entry = (remaining(self.view, request, length), len(self.entries), base(self.view, request))
        self.entries = sorted([*self.entries, entry])

    def fits(self) -> bool:
        """Whether all of them fit to their ends, each running in every iteration (eq. 3)."""
        held = 0
        for count, (more, _, own) in enumerate(reversed(self.entries), 1):
            held += own
            if held + count * more > self.capacity:
                return False
        return True

    def fits_with(self, request: int, length: float) -> bool:
        """Whether they fit with one more request."""
        wider = Ahead(self.view, self.capacity)
        wider.entries = self.entries
        wider.add(request, length)
        return wider.fits()

    def may_grow(self) -> set[int]:
        """Running numbers of those that may run a token now so that all can still finish one after the other.

        It is a head of the order, the longest such: whoever is left out pauses with what it holds. Empty if they could
        not finish so even now, though each fits alone (a host sees to that); everybody where they fit.
        """
        held = sum(own for _, _, own in self.entries)
        most, limit = 0, math.inf
        for place, (more, _, own) in enumerate(self.entries):
            limit = min(limit, self.capacity - held - more + 1 + place)
            if limit < place + 1:
                break
            most = place + 1
            held -= own
        return {number for _, number, _ in self.entries[:most]}
