"""Checks of a task's graph of calls: every loop ends, and calls that another waits for together run equally often.

`calls` are the sections of the calls by name (`description.CallSection`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenstep.request import F8

#: A residual of least squares up to `_ZERO` counts as zero; a mean within `_ROUNDING` of one run more counts as one more.
_ZERO, _ROUNDING = 1e-6, 1e-12


def means(calls: Mapping[str, Any]) -> F8:
    """float64[calls, calls]: how many runs of each call (column) one run of a call (row) directly leads to on average.

    The parents of a call, in `after`, run equally often, so only the first counts.
    """
    place = {name: k for k, name in enumerate(calls)}
    led = np.zeros((len(place), len(place)))
    for name, call in calls.items():
        if call.after:
            led[place[call.after[0]], place[name]] += 1
        for follows, chance in call.then.items():
            if follows in place:
                led[place[name], place[follows]] += chance
    return led


def endless(calls: Mapping[str, Any]) -> str | None:
    """The first call with `then` in a loop that does not end; None if all loops end.

    A loop does not end if each run of it leads to at least one more on average. A run of a call leads to each call in `then`
    with its chance, and to each call that waits for it: a branching process. It ends if the largest eigenvalue of the means
    within the loop is below 1.
    """
    led = means(calls)
    leads = np.eye(len(led), dtype=bool) | (led > 0)
    for _ in range(len(led).bit_length()):
        leads = leads @ leads
    for k, (name, call) in enumerate(calls.items()):
        loop = leads[k] & leads[:, k]
        own = led[np.ix_(loop, loop)]
        if own[:, loop[:k].sum()].any() and call.then and np.abs(np.linalg.eigvals(own)).max() >= 1 - _ROUNDING:
            return name
    return None


def uneven(calls: Mapping[str, Any], begin: Sequence[str]) -> str | None:
    """The first call whose parents do not all run equally often in every task; None if there is no such call.

    How often calls run, and how often each way of `then` is taken, satisfies linear equations in every task. A call runs as
    often as ways lead to it, once more if the task begins with it. Its own ways are taken as often as it runs. A call with
    `after` runs as often as its first parent. Two calls run equally often if these equations imply it.

    Args:
        calls: every call can be reached, and every call leads to the end.
        begin: the calls that a task begins with.
    """
    joins = [name for name, call in calls.items() if len(call.after) > 1]
    if not joins:
        return None
    equations, place = _equations(calls, begin), {name: k for k, name in enumerate(calls)}
    for name in joins:
        first, *others = calls[name].after
        wanted = np.zeros((equations.shape[1], len(others)))
        wanted[place[first]] = 1
        wanted[[place[one] for one in others], np.arange(len(others))] = -1
        combined = equations.T @ np.linalg.lstsq(equations.T, wanted, rcond=None)[0]
        if np.abs(combined - wanted).max() > _ZERO:
            return name
    return None


def _equations(calls: Mapping[str, Any], begin: Sequence[str]) -> F8:
    """The equations of `uneven`, float64[M, N]. Columns are the unknowns, calls then ways, and last the constant."""
    place = {name: k for k, name in enumerate(calls)}
    ways = [(name, follows) for name, call in calls.items() for follows, chance in call.then.items() if chance > 0]
    led, chosen = np.zeros((2, len(calls), len(calls) + len(ways) + 1))
    for k, (name, call) in enumerate(calls.items()):
        led[k, k] = 1
        if call.after:
            led[k, place[call.after[0]]] = -1
        elif name in begin:
            led[k, -1] = -1
        if call.then:
            chosen[k, k] = -1
    for w, (name, follows) in enumerate(ways, len(calls)):
        chosen[place[name], w] = 1
        if follows in place:
            led[place[follows], w] = -1
    return np.concatenate([led, chosen])
