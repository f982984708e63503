"""Deadlines of a machine without a clock: what is due is found when somebody says what time it is."""

from __future__ import annotations

import heapq
import math


class Timers:
    """Named deadlines; a name has one at most."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, tuple[str, int]]] = []
        self._due: dict[tuple[str, int], float] = {}
        self._number = 0

    def set(self, name: tuple[str, int], at_s: float) -> None:
        """The name's deadline is now this one."""
        self._due[name] = at_s
        self._number += 1
        heapq.heappush(self._heap, (at_s, self._number, name))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def clear(self, name: tuple[str, int]) -> None:
        self._due.pop(name, None)

    def pop(self, now_s: float) -> tuple[str, int] | None:
        """A name whose deadline is over, earliest first; its deadline is cleared."""
        while self._heap and (self._heap[0][0] <= now_s or self._is_old()):
            at_s, _, name = heapq.heappop(self._heap)
            if self._due.get(name) == at_s:
                del self._due[name]
                return name
        return None

    @property
    def next_s(self) -> float:
        """The earliest deadline; inf when there is none."""
        heap, due = self._heap, self._due
        while heap:
            at_s, _, name = heap[0]
            if due.get(name) == at_s:
                return at_s
            heapq.heappop(heap)
        return math.inf

    def __len__(self) -> int:
        return len(self._due)

    def _is_old(self) -> bool:
        at_s, _, name = self._heap[0]
        return self._due.get(name) != at_s
