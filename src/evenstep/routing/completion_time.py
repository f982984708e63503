"""Min-min and max-min: requests in order of length, each to the worker that is ready first."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8
from evenstep.routing.filling import Filling, overdue
from evenstep.routing.view import RoutingDecision, RoutingView


def lengths(view: RoutingView, predicted: bool) -> F8:
    """float64[W], processing times p_i in tokens: the load at admission, or with the expected output added.

    A request of unknown output counts its load at admission alone.
    """
    if not predicted:
        return view.waiting_load
    return view.waiting_load + np.where(np.isnan(view.waiting_steps), 0.0, view.waiting_steps)


def route(view: RoutingView, *, longest_first: bool, predicted: bool, age_limit: float) -> RoutingDecision:
    """Overdue requests first, oldest first; then by length; each to the worker of smallest ready time.

    All workers are alike to a request here, so the earliest completion time of request i is ``min_g r_g + p_i``:
    the request to schedule next is the longest (max-min) or shortest (min-min), and its worker is the one of smallest
    ready time r_g among those where it fits. r_g is the worker's load, and grows by p_i.

    Args:
        longest_first: max-min, else min-min. Equal lengths go oldest first.
        predicted: processing times with the expected output.
        age_limit: see `filling.overdue`.
    """
    filling = Filling(view)
    length = lengths(view, predicted)
    ready = view.load + view.queued_load
    late = overdue(view, age_limit)
    rest = late + np.argsort(-length[late:] if longest_first else length[late:], kind="stable")
    for request in [*range(late), *rest.tolist()]:
        workers = filling.open_to(request)
        if workers.size:
            first = int(workers[np.argmin(ready[workers])])
            filling.send(request, first)
            ready[first] += length[request]
        elif filling.full:
            break
    return filling.decision()
