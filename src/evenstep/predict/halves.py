"""Detects whether the older and the recent half of a window of requests come from different traffic."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.request import I8

_COUNTED = 1 << 16  # lengths up to which there is a place for each; of longer ones only for those that occur


def differ(records: I8, half: int, drift: float, ahead: int = 0) -> bool:
    """True if the length distributions of two samples, partly censored, differ by more than chance explains.

    They differ if the largest gap between their distribution functions (Kaplan-Meier) exceeds ``drift * sqrt(1/n + 1/m)``.
    Here n and m are, at each length, the sizes of uncensored samples with as many requests at risk.

    Args:
        records: int64[N], N >= 1, output length of each request, or minus the age of one that still runs.
        half: the first sample is the first `half` of the records, the second the others.
        ahead: tokens by which ages may be too high; the samples differ only if they do with any ages up to that much lower.
    """
    younger = np.maximum(-records - ahead, 0)
    longest = int(np.abs(records).max())
    if longest > _COUNTED:
        occur = np.unique(np.concatenate([[0], np.abs(records), younger]))
        records = np.sign(records) * np.searchsorted(occur, np.abs(records))
        younger, longest = np.searchsorted(occur, younger), occur.size - 1
    return bool(_differ(records, younger, half, drift, np.zeros((6, longest + 1), np.int64)))


@jit
def _differ(records: I8, younger: I8, half: int, drift: float, counts: I8) -> bool:
    """Answer `differ` by counting requests at each length.

    Args:
        records: int64[N], as in `differ`, or ranks in place of lengths and ages.
        younger: int64[N], the ages less `ahead`, at least 0; or their ranks.
        counts: int64[6, > longest], zeros, working space: three rows a half, ended requests by length, running ones by age,
            and running ones by younger age.
    """
    for i in range(records.size):
        row, value = 0 if i < half else 3, records[i]
        if value > 0:
            counts[row, value] += 1
        else:
            counts[row + 1, -value] += 1
            counts[row + 2, younger[i]] += 1
    # of the first half as it is and with younger ages, then of the second: at risk, and the chance to get here
    risk_a = half - counts[0, 0] - counts[1, 0]
    risk_b = half - counts[0, 0] - counts[2, 0]
    risk_c = records.size - half - counts[3, 0] - counts[4, 0]
    risk_d = records.size - half - counts[3, 0] - counts[5, 0]
    a, b, c, d = 1.0, 1.0, 1.0, 1.0
    for x in range(1, counts.shape[1]):
        one, other = counts[0, x], counts[3, x]
        if one + other > 0:
            size_one = risk_b / max(b, 1e-300) if b > 0.0 else 0.0
            size_other = risk_d / max(d, 1e-300) if d > 0.0 else 0.0
            a *= 1.0 - one / max(risk_a, 1)
            b *= 1.0 - one / max(risk_b, 1)
            c *= 1.0 - other / max(risk_c, 1)
            d *= 1.0 - other / max(risk_d, 1)
            if size_one > 0.0 and size_other > 0.0:
                gap = max(b - c, d - a)
                if gap > drift * np.sqrt(1.0 / size_one + 1.0 / size_other):
                    return True
        risk_a -= one + counts[1, x]
        risk_b -= one + counts[2, x]
        risk_c -= other + counts[4, x]
        risk_d -= other + counts[5, x]
    return False
