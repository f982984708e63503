"""Deadlines of waiting requests, and of all requests together.

Most requests are sent by the next tick. So the deadline of a newcomer is not set at once, but when a tick has left it
waiting, or when the host is told the next deadline.
"""

from __future__ import annotations

import math

from evenstep.dispatch.requests.exclusions import Exclusions
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.timers import Timers
from evenstep.dispatch.transitions import State
from evenstep.dispatch.turn import Turn

_QUEUED = (int(State.POOLED), int(State.SEATING))
_WAITING = (*_QUEUED, int(State.FOR_PREFILLER))
_PROBED_S = 1.0  # time for an ejected engine to answer its probe, however soon that is sent


class Deadlines:
    """Deadlines of waiting requests, of newcomers, and of the oldest request.

    Attributes:
        newcomers: rows that arrived and have no deadline yet.
        newcomers_s: when the first of `newcomers` arrived, in seconds; ignore it while `newcomers` is empty.
        wake_s: time at which the host was asked to send the next tick; inf = it was not asked.
        overdue_s: time at which to look for requests that have lasted longer than `total_s`; inf = no look is planned.
    """

    def __init__(self, turn: Turn, rows: Rows, timers: Timers, exclusions: Exclusions) -> None:
        self._turn, self._rows, self.timers, self._exclusions = turn, rows, timers, exclusions
        self.wake_s = math.inf
        self.newcomers, self.newcomers_s, self.overdue_s = list[int](), 0.0, math.inf

    def arrives(self, row: int, waits: bool) -> None:
        """Note a request that has just arrived: it becomes a newcomer if it `waits` for a worker.

        For one that waits for a prefiller the caller sets a deadline by `set`. If no look for overdue requests is planned,
        `overdue_s`, one time for all requests, is set to `total_s` from now, or stays inf without that limit.
        """
        now_s = self._turn.now_s
        if self.overdue_s == math.inf:
            self.overdue_s = now_s + (self._turn.settings.total_s or math.inf)
        if waits:
            if not self.newcomers:
                self.newcomers_s = now_s
            self.newcomers.append(row)

    def set(self, row: int) -> None:
        """Set the deadline of a waiting request: `ttl_s` after it entered its queue.

        If it has failed before and all engines left for it are ejected, at most twice `cooldown_s`, or 1 s if that is
        longer, after that entry.
        """
        settings, at, exclusions = self._turn.settings, self._rows.at, self._exclusions
        ttl_s = settings.ttl_s
        if row in exclusions.excluded and not exclusions.has_others(row, is_up=True):
            ttl_s = min(ttl_s, max(_PROBED_S, 2.0 * settings.cooldown_s))
        self.timers.set(("ttl", row), at.queued_s[row] + ttl_s)

    def set_anew(self) -> None:
        """Set the deadlines of all waiting requests under the settings in force; then there are no newcomers."""
        for row in self._rows.by_request.values():
            if self._rows.at.state[row] in _WAITING:
                self.set(row)
        self.newcomers.clear()

    def set_newcomers(self) -> None:
        """Set the deadline of each newcomer that still waits, `ttl_s` after it was queued; then there are no newcomers.

        One that failed meanwhile keeps the deadline that it got then.
        """
        at, queued_at, excluded = self._rows.at, self._rows.at.queued_s, self._exclusions.excluded
        states, ttl_s, timers = at.state, self._turn.settings.ttl_s, self.timers
        for row in self.newcomers:
            if states[row] in _QUEUED and row not in excluded:
                timers.set(("ttl", row), queued_at[row] + ttl_s)
        self.newcomers.clear()

    def overdue(self) -> int:
        """The row of the oldest request if it has lasted `total_s` by now, else -1; `overdue_s` is set for that request.

        The caller ends that request, and calls again until the result is -1.
        """
        self.look_when_overdue()
        if self.overdue_s > self._turn.now_s:
            return -1
        return next(iter(self._rows.by_request.values()))

    def look_when_overdue(self) -> None:
        """Set `overdue_s` to the arrival of the oldest request plus `total_s`; inf without a request or a limit."""
        row = next(iter(self._rows.by_request.values()), None)  # in order of arrival
        total_s = self._turn.settings.total_s or math.inf
        self.overdue_s = math.inf if row is None else self._rows.at.since_s[row] + total_s

    @property
    def next_s(self) -> float:
        """The earliest time of a timer, an overdue request or a newcomer's deadline, in seconds; inf without any."""
        next_s = min(self.timers.next_s, self.overdue_s)
        return min(next_s, self.newcomers_s + self._turn.settings.ttl_s) if self.newcomers else next_s
