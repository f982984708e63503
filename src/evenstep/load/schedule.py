"""Decides when each request of a run starts. No I/O and no clock: the host passes the time.

Calls of agent tasks start by the rules of `Workflow`, requests of a trace in an open or a closed loop. A request of a trace
may wait for another to end, well or not: the one in its column ``after``, or the previous one of its session.

* Open loop: a request is due at its own time, or at the end of the request it waits for if that is later.
* Closed loop: each user has one session, or one request outside sessions, at a time; requests that wait for each other
  count as one session. The user's requests that wait for no other are due at once, the others ``think_s`` after the end of
  the request they wait for. When all of them have ended, the user takes the next session or request of the trace. Only a
  closed loop uses ``think_s``.
* Requests due at the same time start in the order of the trace.
"""

from __future__ import annotations

import heapq

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.sim.network.tasks import Calls
from evenstep.workload.readers.links import previous_in_session
from evenstep.workload.replicate import units_of


class Due:
    """Queue of requests by due time, then by row. A subclass adds a request that waits for others when these have ended.

    Times are seconds from the start of the run.

    Args:
        total: number of requests in the run.
        known: due time and row of each request whose due time is known; the list becomes the queue, and is changed.
    """

    def __init__(self, total: int, known: list[tuple[float, int]]) -> None:
        self.total, self._due = total, known
        self.started = 0  # requests that `due` has handed out
        self.finished = 0  # requests that have ended; only subclasses increase it
        heapq.heapify(known)

    @property
    def is_over(self) -> bool:
        """True if every request has ended, with or without an error."""
        return self.finished == self.total

    @property
    def next_s(self) -> float | None:
        """Earliest due time in the queue, which may have passed; None if the queue is empty."""
        return self._due[0][0] if self._due else None

    def due(self, now_s: float) -> tuple[int, float] | None:
        """Remove the first request that is due by `now_s` from the queue, and count it as started.

        Returns its row and due time, or None if no request is due; call it until it returns None.
        """
        if not self._due or self._due[0][0] > now_s:
            return None
        at_s, row = heapq.heappop(self._due)
        self.started += 1
        return row, at_s

    def comes(self, row: int, at_s: float) -> None:
        """Add a request that was not in `known` to the queue, due at `at_s`; a subclass calls it once for each of these."""
        heapq.heappush(self._due, (at_s, row))


class Schedule(Due):
    """The due times of a trace's requests, by the rules of the module. The host calls `due`, and `ended` at each end.

    Args:
        users: users of a closed loop; 0 = open loop.
        times: float64[N], due times of an open loop in seconds from the start; an open loop without raises `InputError`.
        speed: divides the trace's thinking times.
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
        self._unit, units = _linked(*units_of(trace), self._after)
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
        """Count a request that ended `now_s` after the start, with or without an error, and queue those that waited for it.

        In a closed loop, a user whose session or single request is complete takes the next one of the trace.
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
        """Give a user the next session or request of the trace, if one is left: queue its first requests, due at `now_s`."""
        if self._next_unit == len(self._members):
            return
        for row in self._members[self._next_unit]:
            if self._after[row] < 0:
                self.comes(row, now_s)
        self._next_unit += 1


class Workflow(Due):
    """Queue of the calls of agent tasks by due time; the host calls `due`, and `ended` at the end of each call.

    A call is due its delay after the last call that it waits for has ended, well or not. A call that waits for none is due
    its delay after its task arrives. Rows are those of `calls`.

    Args:
        calls: the calls of all tasks; their arrival times and delays are divided by `speed`.
        models: name of the model that each call requests; also an attribute.
        priority: float64[C], priority that each call sends; smaller values are served first.
        until_s: end of the run, in seconds of `calls`; None = no end. The attribute `until_s` is divided by `speed`.
    """

    def __init__(
        self, calls: Calls, models: list[str], priority: F8, until_s: float | None = None, speed: float = 1.0
    ) -> None:
        self.models, self._calls = models, calls
        self.until_s = None if until_s is None else until_s / speed
        self._priority: list[float] = priority.tolist()
        self._delay_s: list[float] = (calls.delay_s / speed).tolist()
        self._pending: list[int] = np.bincount(calls.child, minlength=calls.task.size).tolist()
        self._children: dict[int, list[int]] = {}
        for parent, child in zip(calls.parent.tolist(), calls.child.tolist(), strict=True):
            self._children.setdefault(parent, []).append(child)
        came_s = calls.arrival_s[calls.task] / speed + calls.delay_s / speed
        super().__init__(
            calls.task.size, [(float(came_s[row]), row) for row, count in enumerate(self._pending) if not count]
        )

    def lines(self, row: int) -> bytes:
        """Header lines of a call, each with its CRLF: its task (``task-N``) and its priority."""
        return b"X-Evenstep-Task: task-%d\r\nX-Evenstep-Priority: %a\r\n" % (self._calls.task[row], self._priority[row])

    def ended(self, row: int, now_s: float) -> None:
        """Count a call that ended `now_s` seconds after the start, well or not; queue calls that now wait for no other."""
        self.finished += 1
        for child in self._children.get(row, ()):
            self._pending[child] -= 1
            if not self._pending[child]:
                self.comes(child, now_s + self._delay_s[child])


def _linked(unit: I8, units: int, after: I8) -> tuple[I8, int]:
    """Join the units (session, or request alone) of rows that wait for each other; returns as `units_of`, by first rows."""
    joined = list(range(units))

    def first(one: int) -> int:
        while joined[one] != one:
            joined[one] = joined[joined[one]]
            one = joined[one]
        return one

    for row in np.flatnonzero(after >= 0).tolist():
        one, other = first(int(unit[row])), first(int(unit[after[row]]))
        joined[max(one, other)] = min(one, other)
    kept, place = np.unique([first(one) for one in range(units)], return_inverse=True)
    return place.reshape(-1)[unit], int(kept.size)


def order_of(trace: Trace) -> I8:
    """int64[N], row of the request that each request waits for, -1 = it waits for no other.

    This is the trace's column ``after``. Without that column, each request waits for the previous row of its session.
    """
    if trace.after is not None or trace.session is None:
        return trace.column("after")
    return previous_in_session(trace.session)
