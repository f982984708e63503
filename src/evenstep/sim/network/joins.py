"""Checks that calls run equally often in every task; only then can another call wait for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenstep.request import F8

#: A residual of least squares that counts as zero.
_ZERO = 1e-6


def uneven(after: Mapping[str, Sequence[str]], then: Mapping[str, Sequence[str]], begin: Sequence[str]) -> str | None:
    """The first call whose parents do not all run equally often in every task; None where there is no such call.

    Every task satisfies linear equations in how often its calls run and how often it takes each way from `then`: a call runs
    as often as ways lead to it, once more if the task begins with it; its own ways are taken as often as it runs; a call
    with `after` runs as often as its first parent. Two calls run equally often if these equations imply it.

    Args:
        after: the parents of each call. Every call can be reached, and every call leads to the end.
        then: what may follow each call by chance, the end included.
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
    """float64[M, N]: a row an equation, a column an unknown, calls first, then ways; the last is the constant."""
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
