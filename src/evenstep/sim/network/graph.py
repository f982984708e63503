"""Checks of a task's graph of calls: every loop ends, and calls that another waits for together run equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenstep.request import F8

#: A residual of least squares up to `_ZERO` counts as zero; a mean within `_ROUNDING` of one run more counts as one more.
_ZERO, _ROUNDING = 1e-6, 1e-12


def means(after: Mapping[str, Sequence[str]], then: Mapping[str, Mapping[str, float]]) -> F8:
    """float64[calls, calls]: how many runs of each call (column) one run of a call (row) directly leads to on average.

    `after` has the parents of each call, of which only the first counts, `then` the chances of the calls that may follow.
    """
    place = {name: k for k, name in enumerate(after)}
    led = np.zeros((len(place), len(place)))
    for name, parents in after.items():
        if parents:
            led[place[parents[0]], place[name]] += 1
        for follows, chance in then[name].items():
            if follows in place:
                led[place[name], place[follows]] += chance
    return led


def endless(after: Mapping[str, Sequence[str]], then: Mapping[str, Mapping[str, float]]) -> str | None:
    """The first call with `then` in a loop that does not end; None if all loops end.

    A loop does not end if each run of it leads to at least one more on average. A run of a call leads to each call in `then`
    with its chance, and to each call that waits for it: a branching process. It ends if the largest eigenvalue of the means
    within the loop is below 1.

    Args:
        after: the parents of each call; they run equally often, so only the first counts.
        then: the chance of each call that may follow; the end may be among them.
    """
    led = means(after, then)
    leads = np.eye(len(led), dtype=bool) | (led > 0)
    for _ in range(len(led).bit_length()):
        leads = leads @ leads
    for k, name in enumerate(after):
        loop = leads[k] & leads[:, k]
        own = led[np.ix_(loop, loop)]
        if own[:, loop[:k].sum()].any() and then[name] and np.abs(np.linalg.eigvals(own)).max() >= 1 - _ROUNDING:
            return name
    return None


def uneven(after: Mapping[str, Sequence[str]], then: Mapping[str, Sequence[str]], begin: Sequence[str]) -> str | None:
    """The first call whose parents do not all run equally often in every task; None if there is no such call.

    How often calls run, and how often each way of `then` is taken, satisfies linear equations in every task. A call runs as
    often as ways lead to it, once more if the task begins with it. Its own ways are taken as often as it runs. A call with
    `after` runs as often as its first parent. Two calls run equally often if these equations imply it.

    Args:
        after: the parents of each call. Every call can be reached, and every call leads to the end.
        then: the calls that may follow each call by chance, the end included.
        begin: the calls that a task begins with.
    """
    joins = [name for name, parents in after.items() if len(parents) > 1]
    if not joins:
        return None
    equations, place = _equations(after, then, begin), {name: k for k, name in enumerate(after)}
    for name in joins:
        first, *others = after[name]
        wanted = np.zeros((equations.shape[1], len(others)))
        wanted[place[first]] = 1
        wanted[[place[one] for one in others], np.arange(len(others))] = -1
        combined = equations.T @ np.linalg.lstsq(equations.T, wanted, rcond=None)[0]
        if np.abs(combined - wanted).max() > _ZERO:
            return name
    return None


def _equations(after: Mapping[str, Sequence[str]], then: Mapping[str, Sequence[str]], begin: Sequence[str]) -> F8:
    """The equations of `uneven`, float64[M, N]. Columns are the unknowns, calls then ways, and last the constant."""
    place = {name: k for k, name in enumerate(after)}
    ways = [(name, follows) for name in after for follows in then[name]]
    led, chosen = np.zeros((2, len(after), len(after) + len(ways) + 1))
    for name, k in place.items():
        led[k, k] = 1
        if after[name]:
            led[k, place[after[name][0]]] = -1
        elif name in begin:
            led[k, -1] = -1
        if then[name]:
            chosen[k, k] = -1
    for w, (name, follows) in enumerate(ways, len(after)):
        chosen[place[name], w] = 1
        if follows in place:
            led[place[follows], w] = -1
    return np.concatenate([led, chosen])
