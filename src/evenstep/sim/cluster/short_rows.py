"""Computes the request table from the two words a request that the short loop keeps, in one pass."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Floats, Ints, IntTable, Table, declared, signature
from evenstep.sim.cluster.model import SHIFT


@declared(signature(int, Ints, Ints, Floats, Floats, int, IntTable, Table))
def follow(place: Ints, output: Ints, began_s: Floats, ended_s: Floats, first: int, whole: IntTable, times: Table) -> int:
    """Fill in the rows of completed requests; returns their number N.

    Args:
        place: int64[N], `Admitted.place` of each, written at its admission.
        output: int64[N], tokens.
        began_s, ended_s: float64[K], start and end of the steps from `first` on.
        first: the first of these steps.
        whole: int64[3, N], filled with worker, first and last decode step.
        times: float64[3, N], seconds, filled with admission, first token and end.
    """
    worker_part = (1 << SHIFT) - 1
    for i in range(output.size):
        r = np.uintp(i)
        admitted = place[r] >> SHIFT
        finished = admitted + output[r] - 1
        begin, end = np.uintp(admitted - first), np.uintp(finished - first)
        whole[0, r], whole[1, r], whole[2, r] = place[r] & worker_part, admitted, finished
        times[0, r], times[1, r], times[2, r] = began_s[begin], ended_s[begin], ended_s[end]
    return output.size
