"""Min-min and max-min against the table of completion times of their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from tests.strategies import routing_views

from evenstep.routing.policies.max_min import MaxMin
from evenstep.routing.policies.min_min import MinMin


def by_the_table(view, longest_first):
    """The definition, literally: a table of earliest completion times, one request scheduled at a time."""
    ready, free, left = (
        view.load + view.queued_load,
        view.free_slots.copy(),
        list(range(view.waiting_id.size)),
    )
    worker = [-1] * view.waiting_id.size
    while left and free.any():
        open_to = np.flatnonzero(free > 0)
        finish = {i: (ready[open_to] + view.waiting_load[i]).min() for i in left}
        pick = max if longest_first else min
        i = pick(left, key=lambda i: (finish[i], -i if longest_first else i))
        g = int(open_to[np.argmin(ready[open_to])])
        worker[i], ready[g], free[g] = g, ready[g] + view.waiting_load[i], free[g] - 1
        left.remove(i)
    return worker


@given(routing_views(kv_limited=False))
def test_the_order_by_length_is_the_order_of_the_table(view):
    assert MaxMin(age_limit=0).route(view).worker.tolist() == by_the_table(view, longest_first=True)
    assert MinMin(age_limit=0).route(view).worker.tolist() == by_the_table(view, longest_first=False)
