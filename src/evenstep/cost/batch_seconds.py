"""Works out the seconds of a batch from a law's numbers, which `cost.batch` lays out.

An argument `first` is the index in these numbers at which an axis, a line or the grid begins.
"""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.cost import batch as content
from evenstep.cost.batch import Batch
from evenstep.request import F8


@jit
def before(law: F8, first: int, points: int, at: float) -> int:
    """The segment 0..points - 2 that a value lies in, between ascending knots from `law[first]` on; the nearest if outside.

    A value on a knot lies in the segment above it.
    """
    low, high = 0, points - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if law[first + middle] <= at:
            low = middle
        else:
            high = middle
    return low


@jit
def on_lines(law: F8, first: int, knots: int, at: float) -> float:
    """Seconds by linear interpolation at the value `at`; the end segments are extended.

    The knots stand from `law[first]` on, ascending, and after them as many seconds.
    """
    k = before(law, first, knots, at)
    left, right = law[first + k], law[first + k + 1]
    low, high = law[first + knots + k], law[first + knots + k + 1]
    return low + (high - low) / (right - left) * (at - left)


@jit
def cell(law: F8, first: int, points: int, at: float) -> tuple[int, float]:
    """The cell 0..points - 2 of an axis that a value lies in, and its fraction within the cell.

    The fraction is in 0..1: it is 0 before the first point and above 1 past the last. An axis of one point gives (0, 0.0).
    """
    if points == 1:
        return 0, 0.0
    k = before(law, first, points, at)
    left, right = law[first + k], law[first + k + 1]
    share = (at - left) / (right - left)
    return k, max(share, 0.0)


@jit
def on_grid(law: F8, first: int, chunk: float, chunk_context: float, decodes: float, context: float) -> float:
    """Seconds by linear interpolation in the table that begins at `law[first]`; never below 0.

    The table is four sizes, two shares of the longest context, the points of each axis (those of `profile_tables.AXES`),
    then the seconds. Before an axis's first point the first counts; past its last the end cell is extended.

    Args:
        chunk, chunk_context: tokens of the prefill chunk, and those computed before it.
        decodes, context: requests that decode, and the context tokens of each.
    """
    a, b, c, d = int(law[first]), int(law[first + 1]), int(law[first + 2]), int(law[first + 3])
    at = first + 6
    i, x = cell(law, at, a, chunk)
    j, y = cell(law, at + a, b, chunk_context)
    k, z = cell(law, at + a + b, c, decodes)
    m, w = cell(law, at + a + b + c, d, context)
    at += a + b + c + d
    total = 0.0
    for corner in range(16):
        p, q, r, s = corner & 1, (corner >> 1) & 1, (corner >> 2) & 1, (corner >> 3) & 1
        weight = (x if p else 1.0 - x) * (y if q else 1.0 - y) * (z if r else 1.0 - z) * (w if s else 1.0 - w)
        if weight != 0.0:
            value = law[at + ((min(i + p, a - 1) * b + min(j + q, b - 1)) * c + min(k + r, c - 1)) * d + min(m + s, d - 1)]
            total += weight * value
    return max(total, 0.0)


@jit
def attention(law: F8, first: int, batch: F8) -> float:
    """Seconds of attention: chunks as one of equal work, decodes at their mean context and a share of the longest.

    The share is of the extra seconds if all decodes had the longest context. The table begins at `law[first]` (`on_grid`);
    `batch` is float64[FEATURES].
    """
    chunk, decodes = batch[content.PREFILL_TOKENS], batch[content.DECODES]
    before_chunk = 0.0
    if chunk > 0.0:
        pairs = batch[content.CROSSED] + 0.5 * batch[content.CHUNK_SQUARES]
        before_chunk = max(pairs / chunk - 0.5 * chunk, 0.0)
    if decodes == 0.0:
        return on_grid(law, first, chunk, before_chunk, 0.0, 0.0)
    mean = batch[content.DECODE_CONTEXT] / decodes
    seconds = on_grid(law, first, chunk, before_chunk, decodes, mean)
    share = law[first + 5] if chunk > 0.0 else law[first + 4]
    if share > 0.0 and batch[content.LONGEST] > mean:
        most = on_grid(law, first, chunk, before_chunk, decodes, batch[content.LONGEST])
        seconds += share * max(most - seconds, 0.0)
    return seconds


@jit
def seconds_of(law: F8, batch: F8) -> float:
    """Seconds of a batch, float64[FEATURES], by a law of `batch.layout`, float64[*]: the sum at the top of `cost.batch`."""
    seconds = law[content.CONSTANT]
    seconds += law[content.PER_KV] * batch[content.KV]
    seconds += law[content.PER_SQUARE] * batch[content.CHUNK_SQUARES]
    seconds += law[content.PER_CROSSED] * batch[content.CROSSED]
    seconds += law[content.PER_DECODE] * batch[content.DECODE_CONTEXT]
    at, knots = content.HEAD, int(law[content.TOKEN_KNOTS])
    if knots > 0:
        seconds += on_lines(law, at, knots, batch[content.TOKENS])
        at += 2 * knots
    knots = int(law[content.REQUEST_KNOTS])
    if knots > 0:
        seconds += on_lines(law, at, knots, batch[content.REQUESTS])
        at += 2 * knots
    if law[content.GRID] > 0.0:
        seconds += attention(law, at, batch)
    return seconds


def seconds_by_table(law: F8, batch: Batch) -> float:
    """Seconds of a batch by a law's numbers, float64[*] of `batch.layout`."""
    return float(seconds_of(law, batch.features))
