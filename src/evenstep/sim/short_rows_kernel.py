# pyright: basic
"""What follows from a request's words and the steps' times: its rows of the request table, in one pass."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import F1, F2, I1, I2, INT, declared
from evenstep.sim.cluster_layout import S_PLACE, S_SHIFT


@declared(None if INT is None else INT(I2, I1, F1, F1, INT, I2, F2))
def follow(words, output, began, ended, first, whole, times):
    """Fill in the rows of completed requests; answers how many.

    Args:
        words: int64[N, 2], what the loop wrote at their admission.
        output: int64[N], tokens.
        began, ended: float64[K], seconds; start and end of the steps from `first` on.
        first: the first of these steps.
        whole: int64[3, N], filled with worker, first and last decode step.
        times: float64[3, N], seconds, filled with admission, first token and end.
    """
    worker_part = (1 << S_SHIFT) - 1
    for i in range(output.size):
        r = np.uintp(i)
        word = words[r, S_PLACE]
        admitted = word >> S_SHIFT
        finished = admitted + output[r] - 1
        begin, end = np.uintp(admitted - first), np.uintp(finished - first)
        whole[0, r], whole[1, r], whole[2, r] = word & worker_part, admitted, finished
        times[0, r], times[1, r], times[2, r] = began[begin], ended[begin], ended[end]
    return output.size
