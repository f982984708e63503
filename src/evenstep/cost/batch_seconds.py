"""Computes the seconds of a batch from a law's numbers, laid out by `cost.batch`; `first` is an index into these numbers."""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.cost import batch as content
from evenstep.cost.batch import Batch
from evenstep.request import F8


@jit
def before(law: F8, first: int, points: int, at: float) -> int:
    """Index k in 0..points - 2 of the segment, knot k to knot k + 1, that contains `at`; if outside, of the nearest.

    The knots begin at `law[first]`, ascending. A value on any knot but the last is in the segment above it.
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
    """Seconds at `at` on lines through knots, which stand at `law[first]` with their seconds after them; end lines go on."""
    k = before(law, first, knots, at)
    left, right = law[first + k], law[first + k + 1]
    low, high = law[first + knots + k], law[first + knots + k + 1]
    return low + (high - low) / (right - left) * (at - left)


@jit
def cell(law: F8, first: int, points: int, at: float) -> tuple[int, float]:
    """The cell 0..points - 2 of an axis that `at` lies in, and its fraction there: 0 before the axis, above 1 after it.

    The points of the axis begin at `law[first]`. An axis of one point gives (0, 0.0).
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
    then the seconds. Before an axis's first point the first counts; past its last the end cell, if any, is extended.

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
def on_table(law: F8, first: int, chunk: float, chunk_context: float, decodes: float, context: float) -> float:
    """Seconds by `on_grid`; a mixed batch that is beyond the table adds what its chunk and its decodes take longer alone.

    To extend the end cell of a mixed batch would multiply the growth of both, and the noise of the points there. The
    arguments are those of `on_grid`.
    """
    if chunk == 0.0 or decodes == 0.0:
        return on_grid(law, first, chunk, chunk_context, decodes, context)
    at = first + 5
    most_chunk = min(chunk, law[at := at + int(law[first])])
    most_before = min(chunk_context, law[at := at + int(law[first + 1])])
    most_decodes = min(decodes, law[at := at + int(law[first + 2])])
    most_context = min(context, law[at + int(law[first + 3])])
    seconds = on_grid(law, first, most_chunk, most_before, most_decodes, most_context)
    if chunk > most_chunk or chunk_context > most_before:
        measured = on_grid(law, first, most_chunk, most_before, 0.0, 0.0)
        seconds += max(0.0, on_grid(law, first, chunk, chunk_context, 0.0, 0.0) - measured)
    if decodes > most_decodes or context > most_context:
        measured = on_grid(law, first, 0.0, 0.0, most_decodes, most_context)
        seconds += max(0.0, on_grid(law, first, 0.0, 0.0, decodes, context) - measured)
    return seconds


@jit
def attention(law: F8, first: int, batch: F8) -> float:
    """Seconds of attention of a batch, float64[FEATURES], by the table that begins at `law[first]` (`on_table`).

    Chunks count as one chunk of equal work, decodes as all at their mean context. A share of the extra seconds that they
    would take if all had the longest context is added.
    """
    chunk, decodes = batch[content.PREFILL_TOKENS], batch[content.DECODES]
    before_chunk = 0.0
    if chunk > 0.0:
        pairs = batch[content.CROSSED] + 0.5 * batch[content.CHUNK_SQUARES]
        before_chunk = max(pairs / chunk - 0.5 * chunk, 0.0)
    if decodes == 0.0:
        return on_grid(law, first, chunk, before_chunk, 0.0, 0.0)
    mean = batch[content.DECODE_CONTEXT] / decodes
    seconds = on_table(law, first, chunk, before_chunk, decodes, mean)
    share = law[first + 5] if chunk > 0.0 else law[first + 4]
    if share > 0.0 and batch[content.LONGEST] > mean:
        most = on_table(law, first, chunk, before_chunk, decodes, batch[content.LONGEST])
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
    """Seconds of a `Batch` by a law of `batch.layout`, float64[*]; for callers in plain Python."""
    return float(seconds_of(law, batch.features))
