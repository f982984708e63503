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
def stay_until(further, place, stays):
    """Shift curves that begin `further` steps ahead to where they belong; before that, a request stays.

    Args:
        further: int64[N], at least 0.
        place: int64[N], rows of `stays`, float64[M, H+1], which are changed.
    """
    for i in range(place.size):
        row, steps = stays[place[i]], further[i]
        if steps > 0:
            for h in range(row.size - 1, -1, -1):
                row[h] = row[h - steps] if h >= steps else 1.0


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


@jit
def bucket_of(bounds, tokens):
    """First bucket whose bound is at least so many tokens."""
    low, high = 0, bounds.size
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] < tokens:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def parts(bounds, prompts, order, ends):
    """Sort requests by bucket, stable, by counting.

    Args:
        bounds: int64[B - 1], ascending: bucket b holds prompts above ``bounds[b - 1]`` and up to ``bounds[b]``.
        prompts: int64[N], tokens.
        order: int64[N], written: places in `prompts`, bucket after bucket.
        ends: int64[B + 1], zeros, written: bucket b has ``order[ends[b] : ends[b + 1]]``.
    """
    for i in range(prompts.size):
        ends[bucket_of(bounds, prompts[i]) + 1] += 1
    for b in range(1, ends.size):
        ends[b] += ends[b - 1]
    for i in range(prompts.size):
        b = bucket_of(bounds, prompts[i])
        order[ends[b]] = i
        ends[b] += 1
    for b in range(ends.size - 1, 0, -1):
        ends[b] = ends[b - 1]
    ends[0] = 0
