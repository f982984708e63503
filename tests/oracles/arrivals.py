"""When requests become visible: saturated, timed, or closed by users or by the trace's sessions."""

from __future__ import annotations

import heapq
import math

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster


class Arrivals:
    """The requests that are not visible yet, and what the end of a request sets off.

    Saturated requests are revealed by `top_up`, all others by `due` when their time has come.

    Raises:
        InputError: timed arrivals without times, sessions to replay but none in the trace, or a predecessor
            outside its request's session.
    """

    def __init__(self, trace: Trace, cluster: Cluster) -> None:
        self._trace, self._cluster = trace, cluster
        self._upcoming: list[tuple[float, int]] = []  # heap of (time, row)
        self._next_row = 0  # saturated and users: rows are taken in order
        if cluster.arrivals == "timed":
            self._plan_times()
        elif cluster.arrivals == "closed":
            together = cluster.users or sum(cluster.slots_of)
            if cluster.think_s is not None:
                for _ in range(together):
                    self._take_next_row(0.0)
            else:
                self._plan_sessions()
                for _ in range(together):
                    self._start_session(0.0)

    @property
    def next_s(self) -> float:
        """When the next request becomes visible; inf when none is known to."""
        return self._upcoming[0][0] if self._upcoming else math.inf

    def due(self, now_s: float) -> list[tuple[float, int]]:
        """The requests whose time has come, as (time, row) in that order; they are visible from now on."""
        come: list[tuple[float, int]] = []
        while self._upcoming and self._upcoming[0][0] <= now_s:
            come.append(heapq.heappop(self._upcoming))
        return come

    def top_up(self, now_s: float, waiting: int) -> list[tuple[float, int]]:
        """Saturated: the rows that fill the pool up again, revealed now."""
        revealed: list[tuple[float, int]] = []
        if self._cluster.arrivals == "saturated":
            while waiting + len(revealed) < self._cluster.pool and self._next_row < len(self._trace):
                revealed.append((now_s, self._next_row))
                self._next_row += 1
        return revealed

    def origin_s(self, row: int, seen_s: float) -> float:
        """Where waiting starts in the records of a request that became visible at `seen_s`."""
        if self._cluster.arrivals == "timed":
            return self._trace[row].arrival_s
        return seen_s

    def ended(self, row: int, now_s: float) -> None:
        """A request has completed: its user, or the rest of its session, goes on."""
        if self._cluster.arrivals != "closed":
            return
        if self._cluster.think_s is not None:
            self._take_next_row(now_s + self._cluster.think_s)
            return
        for child in self._children.get(row, []):
            heapq.heappush(self._upcoming, (now_s + self._trace[child].think_s, child))
        session = self._session_of[row]
        self._left[session] -= 1
        if self._left[session] == 0:
            self._start_session(now_s)

    def _take_next_row(self, time_s: float) -> None:
        if self._next_row < len(self._trace):
            heapq.heappush(self._upcoming, (time_s, self._next_row))
            self._next_row += 1

    def _plan_times(self) -> None:
        if self._trace.arrival_s is None:
            raise InputError("trace", "arrival_s", "absent", "arrival times", "Timed arrivals need them.")
        cluster = self._cluster
        for request in self._trace:
            prefill = cluster.prefill_base_s + cluster.prefill_per_token_s * request.prompt_tokens
            heapq.heappush(self._upcoming, (request.arrival_s + prefill, request.request_id))

    def _plan_sessions(self) -> None:
        if self._trace.session is None:
            raise InputError("trace", "session", "absent", "sessions, or users with a think time", "Set think_s.")
        self._sessions: dict[tuple[str, int], list[int]] = {}  # in order of their first rows
        self._session_of: dict[int, tuple[str, int]] = {}
        self._children: dict[int, list[int]] = {}
        for request in self._trace:
            row = request.request_id
            key = ("session", request.session) if request.session >= 0 else ("alone", row)
            self._sessions.setdefault(key, []).append(row)
            self._session_of[row] = key
            if request.after >= 0:
                self._children.setdefault(request.after, []).append(row)
        for before, rows in self._children.items():
            for row in rows:
                if self._session_of.get(before) != self._session_of[row]:
                    raise InputError("trace", "after", before, f"a request of the session of request {row}")
        self._left = {key: len(rows) for key, rows in self._sessions.items()}
        self._to_start = list(self._sessions)

    def _start_session(self, now_s: float) -> None:
        if self._to_start:
            for row in self._sessions[self._to_start.pop(0)]:
                request = self._trace[row]
                if request.after < 0:
                    heapq.heappush(self._upcoming, (now_s + request.think_s, row))
