"""A routing policy of one's own: the largest waiting request goes where the load is lightest.

Compare it with ``evenstep compare sample:azure-conv --policy jsq --policy my_policy.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True)
class LargestFirst:
    """Fills free slots with the largest waiting requests, each at the worker with the smallest load.

    Args:
        oldest: how many of the oldest requests are looked at; smaller is fairer.
    """

    oldest: int = 64

    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)
        load, free, kv_free = view.load.copy(), view.free_slots.copy(), view.kv_free.copy()
        for i in np.argsort(-view.waiting_load[: self.oldest], kind="stable"):
            size = view.waiting_load[i]
            fits = (free > 0) & (kv_free >= size)
            if not fits.any():
                continue
            g = int(np.argmin(np.where(fits, load, np.inf)))
            worker[i] = g
            load[g] += size
            free[g] -= 1
            kv_free[g] -= size
        return RoutingDecision(worker)


policy = LargestFirst

if __name__ == "__main__":
    import evenstep

    comparison = evenstep.compare(
        evenstep.read_trace("sample:azure-conv").head(400),
        ["jsq", LargestFirst()],
        cluster=evenstep.Cluster(workers=4, slots=16, pool=64),
    )
    for result in comparison.policies:
        print(f"{result.policy:<28} {100 * result.mean('idle_time_share'):.2f} % of time at the barrier")
