"""Orders the calls of agent tasks in the waiting pool."""

from __future__ import annotations

from evenstep.dispatch.events import Arrived
from evenstep.dispatch.settings import Order

#: The key of a request that came while the order was first come, first served.
UNKEYED = 0.0, 0.0
#: Tasks that are remembered; the one that called longest ago is forgotten first.
_MOST = 65_536


class Tasks:
    """Sort keys of requests, fixed at arrival: the client's priority, then the task's age or attained tokens.

    `keys` is row -> (priority, place by task); the request with the smallest key is sent first.
    """

    def __init__(self) -> None:
        self.keys: dict[int, tuple[float, float]] = {}
        self._task: dict[int, int] = {}  # row -> its task
        self._known: dict[int, tuple[int, int]] = {}  # task -> its first request, and the tokens of its calls that are over

    def arrives(self, row: int, event: Arrived, order: Order) -> None:
        """Set the key of an arriving request: its priority, then its place. Call it for any `order` but ``fcfs``.

        The place is the number of its task's first request for ``oldest-task``, the tokens of the task's ended calls for
        ``least-attained``, else 0. A request without a task is a task of its own.
        """
        first, attained = event.request, 0
        if event.task:
            first, attained = self._known.pop(event.task, (event.request, 0))
            self._known[event.task] = first, attained
            self._task[row] = event.task
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        place = {"oldest-task": first, "least-attained": attained}.get(order, 0)
        self.keys[row] = event.priority, float(place)

    def ends(self, row: int, tokens: int) -> None:
        """Drop the key of a request that is over (KeyError without one), and add its `tokens` that ran to its task."""
        del self.keys[row]
        task = self._task.pop(row, 0)
        if task in self._known:
            first, attained = self._known[task]
            self._known[task] = first, attained + tokens
