# pyright: basic
"""Compiled parts of `ahead`: who is due for a prediction, and projected loads."""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.dispatch.rows_layout import COPIES, LEAVE, NEVER, PREDICTED, PRODUCED, PROMPT, STATE, WORKER
from evenstep.predict.window_kernel import enter, project

RUNNING = 6
ROUNDING = (
    1.5 * 2.0**32
)  # added and taken away: what is left is whole in small parts of a token, so sums need no order


@jit
def due(ints, high, every, curves, due_rows):
    """List the running rows whose prediction is missing, old or overtaken; returns how many.

    Args:
        curves: as in `project_expected`; of length 0 for a policy that expects no loads.
    """
    count = 0
    for row in range(high):
        if ints[STATE, row] != RUNNING:
            continue
        age = ints[PRODUCED, row] // ints[COPIES, row]
        predicted = ints[PREDICTED, row]
        is_due = predicted < 0 or age - predicted >= every or ints[LEAVE, row] <= age
        if is_due or (curves.shape[0] > 0 and curves[row, age - predicted] <= 0.0):
            due_rows[count] = row
            count += 1
    return count


@jit
def project_all(ints, high, load, running, extra, counts, loads, projections):
    """Projected load of every worker, h = 0..H tokens ahead.

    Args:
        ints: int64[*, R], the table of requests, of which the first `high` rows were ever used.
        load, running: float64[G] KV tokens and int64[G] slots of running requests.
        extra: float64[G], foreign KV tokens, taken to stay as they are.
        counts, loads: int64[G, M] and float64[G, M], working space; M a power of two above H.
        projections: float64[G, H+1], written.
    """
    G, columns = counts.shape
    H = projections.shape[1] - 1
    for g in range(G):
        for column in range(columns):
            counts[g, column] = 0
            loads[g, column] = 0.0
    for row in range(high):
        if ints[STATE, row] != RUNNING or ints[LEAVE, row] == NEVER:
            continue
        copies = ints[COPIES, row]
        left = ints[LEAVE, row] - ints[PRODUCED, row] // copies
        if left <= H:
            g = ints[WORKER, row]
            leaving = float(ints[PROMPT, row] + ints[PRODUCED, row] + left * copies)
            enter(counts[g], loads[g], left, leaving, 1)
            counts[g, left] += copies - 1
    for g in range(G):
        project(load[g], running[g], 0, 1, 1.0, columns - 1, counts[g], loads[g], projections[g])
        for h in range(H + 1):
            projections[g, h] += extra[g]


@jit
def project_expected(ints, high, curves, extra, projections):
    """As `project_all` for policies that expect loads: each request counts with its chance to be there still.

    Args:
        curves: float64[R, K], chance to be there h tokens after the prediction, K > H + tokens between predictions.
    """
    G, H = projections.shape[0], projections.shape[1] - 1
    for g in range(G):
        for h in range(H + 1):
            projections[g, h] = extra[g]
    for row in range(high):
        if ints[STATE, row] != RUNNING:
            continue
        copies, g = ints[COPIES, row], ints[WORKER, row]
        since = ints[PRODUCED, row] // copies - ints[PREDICTED, row]
        load, share = ints[PROMPT, row] + ints[PRODUCED, row], 1.0 / curves[row, since]
        for h in range(H + 1):
            expected = (load + h * copies) * (curves[row, since + h] * share)
            projections[g, h] += (expected + ROUNDING) - ROUNDING
