"""Deadlines of a machine without a clock: the host passes the time and gets the deadlines that are due."""

from __future__ import annotations

import heapq
import math
from collections import deque


class Timers:
    """Named deadlines; a name has one at most. A name is a kind and a number, for instance ``("ttl", row)``.

    `at` is name -> deadline, seconds on the host's clock. Change it only by `set`, `clear` and `pop`.
    """

    def __init__(self) -> None:
        #: Deadlines that were set in ascending order, as nearly all are, and the others. Both may hold stale entries.
        self._line: deque[tuple[float, tuple[str, int]]] = deque()
        self._heap: list[tuple[float, tuple[str, int]]] = []
        self.at: dict[tuple[str, int], float] = {}
        self.is_new = False  #: a deadline was set since the owner last cleared this flag

    def set(self, name: tuple[str, int], at_s: float) -> None:
        """Set the deadline of a name, in seconds on the host's clock, in place of an earlier one; sets `is_new`."""
        self.at[name] = at_s
        self.is_new = True
        line, entry = self._line, (at_s, name)
        if not line or entry >= line[-1]:
            line.append(entry)
        else:
            heapq.heappush(self._heap, entry)
        if len(line) + len(self._heap) > 64 + 4 * len(self.at):
            self._line = deque(entry for entry in line if self.at.get(entry[1]) == entry[0])
            self._heap = [entry for entry in self._heap if self.at.get(entry[1]) == entry[0]]
            heapq.heapify(self._heap)

    def clear(self, name: tuple[str, int]) -> None:
        self.at.pop(name, None)

    def pop(self, now_s: float) -> tuple[str, int] | None:
        """Remove the earliest deadline if it is at or before `now_s`, and return its name; None if no deadline is due.

        Of equal deadlines the smallest name comes first. Call it until it returns None.
        """
        found = self._first()
        if found is None or found[0] > now_s:
            return None
        del self.at[found[1]]
        return found[1]

    @property
    def next_s(self) -> float:
        """The earliest deadline in seconds on the host's clock; inf if no deadline is set."""
        found = self._first()
        return math.inf if found is None else found[0]

    def _first(self) -> tuple[float, tuple[str, int]] | None:
        """The earliest deadline in force and its name, None without one; stale entries before it are dropped."""
        line, heap, due = self._line, self._heap, self.at
        while line and due.get(line[0][1]) != line[0][0]:
            line.popleft()
        if not heap:
            return line[0] if line else None
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return min((entries[0] for entries in (line, heap) if entries), default=None)
