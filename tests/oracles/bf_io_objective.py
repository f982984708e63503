"""The objective of BF-IO(H), from its definition."""

from __future__ import annotations

import numpy as np

from evenstep.request import I8
from evenstep.routing.bf_io.exact import Instance
from evenstep.routing.view import HOLD


def objective(instance: Instance, worker: I8) -> float:
    """J of an answer in KV tokens: members times envelope less loads, weighted and summed over steps and groups.

    `worker`, int64[W], is the worker or `HOLD` of each request.
    """
    load = instance.load.copy()
    for i in np.flatnonzero(worker != HOLD):
        load[worker[i]] += instance.profile[i]
    value = 0.0
    for q in range(int(instance.group.max()) + 1):
        own = load[instance.group == q]
        value += float(np.dot(instance.weight, own.shape[0] * own.max(axis=0) - own.sum(axis=0)))
    return value
