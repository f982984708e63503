"""Requests and whole answers that a host tells of in number, as rows of numbers instead of events.

Rules of this file. What a turn leaves is what `Finished`, `Arrived` and a `Tick` of the same time would leave, but for
`Dispatcher.history`, which has none of it; so with prompts that are counted. Where a turn would not be in its usual course
the host tells events.
"""

from __future__ import annotations

import math

from evenstep import compiled
from evenstep.addresses import placed
from evenstep.dispatch.arriving import Arriving
from evenstep.dispatch.turn_kernel import arrive as arrive_kernel
from evenstep.request import I8

_arrive = compiled.entry(arrive_kernel)


class Passing(Arriving):
    """Requests, from their arrival on, many at once."""

    @property
    def has_room(self) -> bool:
        """Whether a turn would be in its usual course: nobody waits, nobody is turned away, nothing is logged."""
        return not (
            self.pool.here
            or self._log is not None
            or self.is_draining
            or self.settings.tenants
            or self.prefill.prefillers
            or self.prefiller_of
            or self.seating
            or self.deciding.door.binds_at_once
            or (self._most or self.most)[1] < 1
        )

    def counted(self, row: int, prompt_tokens: int) -> None:
        """An engine told the tokens of the prompt of the request in this row: what `PromptCounted` would leave.

        Only while nothing is logged, and all events are told.
        """
        self.correct(row, prompt_tokens)

    def answered_all(self, told: I8, requests: list[int]) -> None:
        """Answers came whole.

        Args:
            told: int64[TOLD, TOGETHER], see `turn_kernel.ROW`. requests: of the first of them.
        """
        self.told[:] = told
        self.times.fill(self.now_s)
        self.end_all(requests)

    def came_all(self, told: I8, requests: list[int], tenants: list[str]) -> list[int]:
        """Requests arrived, nobody waits, and there is room.

        Args:
            told: int64[>= n, >= CAME_COLUMNS], see `turn_kernel.CAME_REQUEST`. requests, tenants: of these.

        Returns:
            Their rows; none where one of them is not in its usual course, and nothing was done.
        """
        rows, count, here = self.rows, len(requests), self.pool.here
        if len(rows.free) < count or self.settings.pool_limit < count:
            return []
        places = rows.free[: -count - 1 : -1]
        here.extend(places)
        most, _ = self._most or self.most
        if not _arrive(rows.ints, rows.floats, told, placed(here), count, most, self.now_s):
            del here[:]
            return []
        del rows.free[-count:]
        by_request, present, tenant, high = rows.by_request, self.tenants, tenants[0], rows.high
        are_alike = tenants.count(tenant) == count
        entered = self.door.enters(tenant, count if are_alike else 1)
        for i, row in enumerate(places):
            by_request[requests[i]] = row
            if i and not are_alike:
                entered = self.door.enters(tenants[i])
            present[row] = entered
            if row >= high:
                high = row + 1
        rows.high = high
        if not self.newcomers:
            self.newcomers_s = self.now_s
        if self.overdue_s == math.inf:
            self.overdue_s = self.now_s + (self.settings.total_s or math.inf)
        self.newcomers += places
        self.open_rounds()
        return places
