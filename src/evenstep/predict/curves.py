"""Survival curves P(r > h), r = tokens left: from lengths of the same prompt, shifted, and reduced to a prediction."""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.predict.window import B1
from evenstep.request import F8, I8


@jit
def curve(lengths: I8, held: I8, place: I8, ages: I8, horizon: int, minimum: int, stays: F8, silent: B1) -> None:
    """Write P(r > h) for h = 0..H, r = tokens left, of every request whose prompt has enough remembered lengths.

    It is the share of the prompt's lengths above the age that are also above age + h.

    Args:
        lengths: int64[K, M], output lengths of each remembered prompt.
        held: int64[K], number of lengths in each row, from its start on.
        place: int64[N], row of each request's prompt, or -1.
        ages: int64[N], tokens produced.
        horizon: H, steps.
        minimum: least number of lengths of a prompt to use it; at least one of them must be above the age.
        stays: float64[N, H+1], written; rows of silent requests have no meaning.
        silent: bool[N], written: True where too few lengths are remembered.
    """
    for i in range(place.size):
        silent[i] = True
        row = place[i]
        if row < 0 or held[row] < minimum:
            continue
        at_risk = 0
        for h in range(horizon + 1):
            stays[i, h] = 0.0
        for m in range(held[row]):
            left = lengths[row, m] - ages[i]
            if left > 0:
                at_risk += 1
                if left <= horizon:
                    stays[i, left] += 1.0
        if at_risk == 0:
            continue
        silent[i] = False
        gone = 0.0
        for h in range(horizon + 1):
            gone += stays[i, h]
            stays[i, h] = (at_risk - gone) / at_risk


@jit
def stay_until(further: I8, place: I8, stays: F8) -> None:
    """Shift some curves by `further` steps to later steps, in place; before the shifted curve, a request stays (1).

    Args:
        further: int64[N], >= 0, the shift of each curve.
        place: int64[N], the row of `stays` that each shift is for.
        stays: float64[M, H+1], changed in these rows; values shifted beyond H are lost.
    """
    for i in range(place.size):
        row, steps = stays[place[i]], further[i]
        if steps > 0:
            for h in range(row.size - 1, -1, -1):
                row[h] = row[h - steps] if h >= steps else 1.0


@jit
def both_stages(stays: F8, steps_left: F8, leaves: F8) -> None:
    """Write E[min(r, H)], limited to 1..H, and P(r <= H), float64[N] each, from the curves P(r > h), float64[N, H+1]."""
    horizon = stays.shape[1] - 1
    for i in range(stays.shape[0]):
        expected = 0.0
        for h in range(horizon):
            expected += stays[i, h]
        steps_left[i] = min(max(expected, 1.0), float(horizon))
        leaves[i] = 1.0 - stays[i, horizon]
