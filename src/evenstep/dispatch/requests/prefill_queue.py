"""Requests that wait for a prefiller, and requests whose prompt a prefiller computes or keeps."""

from __future__ import annotations

from collections import OrderedDict

from evenstep.dispatch.commands import Release, Removed, SendPrefill
from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.requests.exclusions import Exclusions
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.transitions import State
from evenstep.dispatch.turn import Turn


class PrefillQueue:
    """The queue of requests for a prefiller, in order of entry, and the prefiller of each request that has one.

    Attributes:
        waiting: rows in the queue, as keys.
        prefiller_of: row -> name of the prefiller that computes or keeps its prompt.
    """

    def __init__(self, turn: Turn, rows: Rows, fleet: Fleet, exclusions: Exclusions) -> None:
        self._turn, self._rows, self._fleet, self._exclusions = turn, rows, fleet, exclusions
        self._prefill = fleet.prefill
        self.waiting: OrderedDict[int, None] = OrderedDict()
        self.prefiller_of: dict[int, str] = {}

    def add(self, row: int) -> None:
        """Queue a request for a prefiller, last. Then send queued requests to prefillers with room (`feed`)."""
        self.waiting[row] = None
        self.feed()

    def feed(self) -> None:
        """Send queued requests, in order, to the least filled prefiller, while one has room (`PrefillBudget.choose`).

        Each gets a `SendPrefill`, and its KV is charged. A request that is excluded from all with room is passed over.
        """
        turn, at, excluded = self._turn, self._rows.at, self._exclusions.excluded
        for row in list(self.waiting):
            found = self._prefill.choose(excluded.get(row, ()))
            if found is None:
                if row not in excluded:
                    return
                continue
            del self.waiting[row]
            self._fleet.timers.clear(("ttl", row))
            self._rows.move(row, State.PREFILLING)
            name = found.spec.name
            at.charged[row] = self._prefill.charge(name, row, at.prompt[row])
            self.prefiller_of[row] = name
            turn.legs = at.leg[row] = leg = turn.legs + 1
            turn.out.append(SendPrefill(at.request[row], leg, name))

    def correct(self, row: int, prompt_tokens: int) -> None:
        """Charge the request's prefiller, if it has one, for `prompt_tokens` instead of the number in its row.

        Call it before the row gets the new number.
        """
        name = self.prefiller_of.get(row)
        if name is not None:
            at = self._rows.at
            self._prefill.correct(name, prompt_tokens - at.prompt[row], at.charged[row])

    def leave(self, row: int, told: bool) -> None:
        """Free the KV memory that the request has at its prefiller, if any. Queued requests that now have room are sent.

        If requests were queued, `Turn.due` is set. A leaving prefiller that has no other request is removed from the fleet.
        `told`: the prefiller gets a `Release`.
        """
        name = self.prefiller_of.pop(row, None)
        if name is None:
            return
        at = self._rows.at
        self._prefill.release(name, row, at.prompt[row], at.charged[row])
        if told:
            self._turn.out.append(Release(at.request[row], name))
        if self.waiting:
            self.feed()
            self._turn.due = True  # commands may be waiting for the next event
        self.forget_if_empty(name)

    def forget_if_empty(self, name: str) -> None:
        """Remove a prefiller that is leaving and has no requests from the fleet; the command `Removed` tells the host."""
        found = self._prefill.prefillers.get(name)
        if found is not None and found.leaves and not found.requests:
            self._fleet.remove(name)
            self._turn.out.append(Removed(name))
