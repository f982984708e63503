"""The waiting pool, ordered by (priority, task, arrival, request number), and the limits of tenants."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from evenstep.dispatch.columns import Restored
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.requests.tasks import UNKEYED, Tasks
from evenstep.dispatch.requests.tenants import Present, Tenants
from evenstep.dispatch.settings import Settings

_CLASSES = 32  # classes that have a share of the window of their own


class Pool:
    """Rows of waiting requests, in order. A request that comes back is placed by its arrival, not last.

    Attributes:
        here: int64, the rows, in order; read it, change it only by `add` and `remove`.
        tasks: sort keys (priority, place by task) that precede the time of arrival; without keys the oldest is first.
        shares: int64[C], working space of `showing.window`.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.shares = np.zeros(_CLASSES, np.int64)
        self.here = array("q")
        self.tasks = Tasks()

    def __len__(self) -> int:
        return len(self.here)

    def __iter__(self) -> Iterator[int]:
        return iter(self.here)

    def add(self, row: int) -> None:
        here, since = self.here, self._rows.at.since_s
        is_last = not here or (not self.tasks.keys and since[row] > since[here[-1]])
        if is_last or self._entry(row) > self._entry(here[-1]):  # most come last
            here.append(row)
        else:
            here.insert(bisect_left(here, self._entry(row), key=self._entry), row)

    def remove(self, row: int) -> None:
        """Remove a row. Raises RuntimeError if it is not in the pool."""
        here = self.here
        if here and here[0] == row:  # most leave in their order
            del here[0]
            return
        place = bisect_left(here, self._entry(row), key=self._entry)
        if place == len(here) or here[place] != row:
            raise RuntimeError(f"row {row} is not in the pool")
        del here[place]

    def in_order(self) -> list[int]:
        """A new list of the rows, sorted anew by (priority, task, arrival, request); for checks against `here`."""
        return sorted(self.here, key=self._entry)

    def oldest(self) -> int:
        """The row of the request that arrived first; the pool must not be empty."""
        return min(self.here, key=self._rows.at.since_s.__getitem__) if self.tasks.keys else self.here[0]

    def _entry(self, row: int) -> tuple[float, float, float, int]:
        """The sort key of a row: priority, place by task, time of arrival, request number."""
        return *self.tasks.keys.get(row, UNKEYED), self._rows.at.since_s[row], self._rows.at.request[row]


class AdmissionLimits(Restored):
    """The limits of each tenant, and its requests.

    Attributes:
        present: tenant -> number of its requests at this dispatcher, and of those that are not sent to a worker.
        of: row -> the entry of `present` for that request's tenant.
        tenants: checks the limits of tenants; a host of several models lets their dispatchers `share` one.
    """

    made_anew = ("tenants",)  # other dispatchers share it; a replay needs no limits, as the log has each verdict

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.present: dict[str, Present] = {}
        self.of: dict[int, Present] = {}
        self._make_anew()

    def _make_anew(self) -> None:
        self.share(Tenants())

    def share(self, tenants: Tenants) -> None:
        """Check limits by `tenants` from now on; requests at all dispatchers that share it count together."""
        self.tenants = tenants
        tenants.present.append(self.present)

    def refusal(self, tenant: str, mean_wait_s: float, now_s: float) -> tuple[int, str, int] | None:
        """Check a request against its tenant's limits, as `Tenants.refusal`; None = admitted, and counted in its rate.

        A tenant without limits of its own has those of ``*``, if set.
        """
        limits = self.settings.tenants.get(tenant) or self.settings.tenants.get("*")
        return None if limits is None else self.tenants.refusal(tenant, limits, mean_wait_s, now_s)

    def enters(self, row: int, tenant: str) -> None:
        """Count the admitted request in this row for its tenant, as one that waits."""
        here = self.present.get(tenant)
        if here is None:
            here = self.present[tenant] = Present(tenant)
        here.requests += 1
        here.waiting += 1
        self.of[row] = here

    def leaves(self, row: int, waits: bool) -> None:
        """Count off the request in this row, which is over; `waits`: it was not sent, so it still counts as waiting."""
        here = self.of.pop(row)
        here.waiting -= waits
        here.requests -= 1
        if not here.requests:
            del self.present[here.tenant]
