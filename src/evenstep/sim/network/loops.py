"""Checks that every loop of calls ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

#: A mean this close to one run more counts as one.
_ROUNDING = 1e-12


def endless(after: Mapping[str, Sequence[str]], then: Mapping[str, Mapping[str, float]]) -> str | None:
    """The first call with `then` in a loop that does not end; None if all loops end.

    A loop does not end if each run of it leads to at least one more on average. A run of a call leads to each call in `then`
    with its chance, and to each call that waits for it: a branching process. It ends if the largest eigenvalue of the means
    within the loop is below 1.

    Args:
        after: the parents of each call; they run equally often, so only the first counts.
        then: the chance of each call that may follow; the end may be among them.
    """
    place = {name: k for k, name in enumerate(after)}
    led = np.zeros((len(place), len(place)))
    for name, parents in after.items():
        if parents:
            led[place[parents[0]], place[name]] += 1
        for follows, chance in then[name].items():
            if follows in place:
                led[place[name], place[follows]] += chance
    leads = np.eye(len(place), dtype=bool) | (led > 0)
    for _ in range(len(place).bit_length()):
        leads = leads @ leads
    for name, k in place.items():
        loop = leads[k] & leads[:, k]
        means = led[np.ix_(loop, loop)]
        if means[:, loop[:k].sum()].any() and then[name] and np.abs(np.linalg.eigvals(means)).max() >= 1 - _ROUNDING:
            return name
    return None
