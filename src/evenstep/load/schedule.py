"""Start times of requests: open or closed loop, sessions in order. No I/O and no clock: the host passes the time.

The rules:

* open: a request is due at its time; if it depends on another (``after``, or the previous one of its session), it is due
  no sooner than that one's end, however that ended;
* closed: each user has one session, or one request outside sessions, at a time; inside a session a request is due
  ``think_s`` after its predecessor has ended; a user without a session takes the next one of the trace;
* requests due at the same time start in the order of the trace.
"""

from __future__ import annotations

import heapq

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.workload.replicate import units_of


class Due:
    """Requests ordered by due time, those due at once by row. Requests that wait for others are added later, by `comes`.

    Times are seconds from the start of the run. A subclass counts the ends in `finished`.

    Args:
        known: due time and row of each request that waits for no other; taken over and reordered.

    Attributes:
        total: number of requests.
        finished: number of requests that have ended.
    """

    def __init__(self, total: int, known: list[tuple[float, int]]) -> None:
        self.total, self._due = total, known
        self.started = self.finished = 0
        heapq.heapify(known)

    @property
    def is_over(self) -> bool:
        """Whether every request has ended, well or not."""
        return self.finished == self.total

    @property
    def next_s(self) -> float | None:
        """Due time of the next request, which may have passed; None if all others wait for others, or no request is left."""
        return self._due[0][0] if self._due else None

    def due(self, now_s: float) -> tuple[int, float] | None:
        """Hand out the request with the earliest due time up to `now_s`: its row and due time. None if no request is due.

        It counts as started and is not handed out again; call it until it answers None.
        """
        if not self._due or self._due[0][0] > now_s:
            return None
        at_s, row = heapq.heappop(self._due)
        self.started += 1
        return row, at_s

    def comes(self, row: int, at_s: float) -> None:
        """Set the due time of a request that was not in `known`, in seconds from the run's start; call it once for each."""
        heapq.heappush(self._due, (at_s, row))


class Schedule(Due):
    """The starts of one run, by the rules of the module. The host asks `due`, and tells each end by `ended`.

    Args:
        trace: the requests.
        users: of a closed loop; 0 = open.
        times: float64[N], due times in an open loop, seconds from the start; ignored in a closed one.
        speed: factor by which thinking times are shorter than in the trace.

    Raises:
        InputError: an open loop without times.
    """

    def __init__(self, trace: Trace, *, users: int = 0, times: F8 | None = None, speed: float = 1.0) -> None:
        if users == 0 and times is None:
            hint = "Give --rate for Poisson arrivals, or --closed USERS."
            raise InputError(trace.name or "trace", "arrival times", "missing", "times for an open loop", hint)
        self._times = times if users == 0 else None
        self._after = order_of(trace)
        self._think_s = trace.column("think_s") / speed
        self._waiting: dict[int, list[int]] = {}
        for row in np.flatnonzero(self._after >= 0).tolist():
            self._waiting.setdefault(int(self._after[row]), []).append(row)
        self._unit, units = units_of(trace)
        self._members: list[list[int]] = [[] for _ in range(units)]
        for row, unit in enumerate(self._unit.tolist()):
            self._members[unit].append(row)
        self._left = [len(rows) for rows in self._members]
        self._next_unit = 0
        first = np.flatnonzero(self._after < 0)
        known = () if self._times is None else zip(self._times[first].tolist(), first.tolist(), strict=True)
        super().__init__(len(trace), list(known))
        for _ in range(users):
            self._begin(0.0)

    def ended(self, row: int, now_s: float) -> None:
        """Note that a request has ended, well or not, `now_s` after the start; those that waited for it get their due times.

        In a closed loop, the user whose session or single request is complete takes the next one of the trace, due now.
        """
        self.finished += 1
        for other in self._waiting.pop(row, ()):
            if self._times is None:
                self.comes(other, now_s + float(self._think_s[other]))
            else:
                self.comes(other, max(float(self._times[other]), now_s))
        unit = int(self._unit[row])
        self._left[unit] -= 1
        if self._times is None and self._left[unit] == 0:
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        """A user takes the next session or request."""
        if self._next_unit == len(self._members):
            return
        for row in self._members[self._next_unit]:
            if self._after[row] < 0:
                self.comes(row, now_s)
        self._next_unit += 1


def order_of(trace: Trace) -> I8:
    """int64[N], the row of the request that each one waits for, -1 = none: the trace's ``after``, else by session.

    By session, a request waits for the row before it in the same session.
    """
    if trace.after is not None or trace.session is None:
        return trace.column("after")
    last: dict[int, int] = {}
    after = np.full(len(trace), -1, np.int64)
    for row, session in enumerate(trace.session.tolist()):
        if session >= 0:
            after[row] = last.get(session, -1)
            last[session] = row
    return after
