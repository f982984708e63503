"""Compiled twin of `capability`."""
# pyright: basic

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.routing.view import SECONDS_PER_TOKEN


@jit
def capabilities(workers_f, parameters, at, out):
    """What each worker can do, into float64[G] `out`; see `capability.capabilities`.

    Args:
        at: place in `parameters` of how many numbers are stated; the numbers follow.
    """
    G = workers_f.shape[1]
    count = int(parameters[at])
    if count > 0:
        for g in range(G):
            out[g] = parameters[at + 1 + g % count]
        return
    least = np.inf
    for g in range(G):
        least = min(least, workers_f[SECONDS_PER_TOKEN, g])
    alike = not 0.0 < least < np.inf
    for g in range(G):
        out[g] = 1.0 if alike else least / workers_f[SECONDS_PER_TOKEN, g]
