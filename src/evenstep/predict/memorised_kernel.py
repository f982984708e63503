# pyright: basic
"""The survival estimate from a few lengths of the same prompt, request by request."""

from __future__ import annotations

from evenstep.compiled import jit


@jit
def curve(lengths, held, place, ages, horizon, minimum, stays, silent):
    """P(r > h) for h = 0..H of every request whose prompt is remembered well enough.

    Args:
        lengths, held: int64[K, M] output lengths of each remembered prompt, the first ``held[k]`` of a row are there.
        place: int64[N], row of each request's prompt, or -1.
        ages: int64[N], tokens produced.
        horizon: H, steps.
        minimum: lengths of a prompt that it takes to say something, at least one of them above the age.
        stays: float64[N, H+1], written where something is known.
        silent: bool[N], written: where nothing is.
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
def enter(lengths, held, entered, row, length):
    """A prompt's output length in place of its oldest one once the row is full; `entered` counts them."""
    lengths[row, entered[row] % lengths.shape[1]] = length
    entered[row] += 1
    held[row] = min(entered[row], lengths.shape[1])


@jit
def both_stages(stays, steps_left, leaves):
    """E[min(r, H)] in 1..H and P(r <= H), float64[N], from the curve P(r > h), float64[N, H+1]; added from left to right."""
    horizon = stays.shape[1] - 1
    for i in range(stays.shape[0]):
        expected = 0.0
        for h in range(horizon):
            expected += stays[i, h]
        steps_left[i] = min(max(expected, 1.0), float(horizon))
        leaves[i] = 1.0 - stays[i, horizon]
