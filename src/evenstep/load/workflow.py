"""Decides when each call of the agent tasks starts, and gives its model and headers. No I/O and no clock."""

from __future__ import annotations

import numpy as np

from evenstep.load.schedule import Due
from evenstep.request import F8
from evenstep.sim.network.tasks import Calls


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
