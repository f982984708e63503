"""The engines a request must not be sent to again, and the one it should avoid."""

from __future__ import annotations

from collections.abc import Collection

from evenstep.dispatch.events import Kind
from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.requests.rows import Rows


class Exclusions:
    """The engines that may not get a request again, by the request's row.

    Attributes:
        excluded: row -> names of engines that the request failed on; if one may be lost, also of its barrier group.
        avoided: row -> name of the engine that last handed the request back without a new token.
    """

    def __init__(self, rows: Rows, fleet: Fleet) -> None:
        self._rows, self._fleet = rows, fleet
        self.excluded: dict[int, set[str]] = {}
        self.avoided: dict[int, str] = {}

    def exclude(self, row: int, name: str, kind: Kind) -> None:
        """Exclude the engine `name` for the request in this row. Except for kind ``unable`` this counts as a failed try.

        Unless `kind` is ``status`` or ``unable`` the engine may be lost: then its whole barrier group is excluded.
        """
        self._rows.at.tries[row] += kind != "unable"  # that engine did not fail
        lost = [name] if kind in ("status", "unable") else self._fleet.lost_with(name)
        self.excluded.setdefault(row, set()).update(lost)

    def has_others(self, row: int, is_up: bool = False, without: str = "") -> bool:
        """Whether the fleet, without excluded engines, still has an engine for a request, and a prefiller if it needs one.

        A request with output tokens needs no prefiller.

        Args:
            is_up: count only engines that are not ejected.
            without: name of an engine that does not count, nor does its barrier group; empty = no such engine.
        """
        out = {*self.excluded.get(row, ()), *self._fleet.lost_with(without)}
        return self._fleet.has_left(out, with_prefill=not self._rows.at.produced[row], is_up=is_up)

    def forbids(self, row: int, name: str) -> bool:
        """Whether the engine `name` is excluded or to be avoided for the request in this row."""
        return self.avoided.get(row) == name or (row in self.excluded and name in self.excluded[row])

    def concerns(self, rows: Collection[int]) -> bool:
        """Whether any engine is excluded or avoided for any of the requests in these rows."""
        return any(not found.keys().isdisjoint(rows) for found in (self.excluded, self.avoided) if found)

    def forget(self, row: int) -> bool:
        """Forget the excluded and avoided engines of a request that is over; returns whether it had any of either."""
        return (self.excluded.pop(row, None), self.avoided.pop(row, None)) != (None, None)
