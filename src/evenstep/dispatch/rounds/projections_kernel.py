# pyright: basic
"""Compiled parts of `ahead`: who is due for a prediction, and projected loads."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.dispatch.requests.rows_layout import (
    CAP,
    COPIES,
    CURVE_END,
    EXPECTED,
    KEY,
    LEAVE,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    REQUEST,
    STATE,
    WORKER,
)
from evenstep.predict.expected_kernel import add_expected, fill_between, steps_between
from evenstep.predict.window_kernel import enter, project

RUNNING = 6


@jit
def age_of(ints, row):
    """Tokens each copy of a request has produced."""
    copies = ints[COPIES, row]
    return ints[PRODUCED, row] if copies == 1 else ints[PRODUCED, row] // copies


@jit
def due(ints, high, every, expects, changed, due_rows, order):
    """List the running rows whose prediction is missing, old or overtaken; returns how many.

    Args:
        expects: whether a request is overtaken at the end of its curve, not at the age it was expected to leave at.
        changed: bool[G], workers to look at: nobody on the others has got older.
        due_rows: int64[R], written. order: int64[R], written: what they are sorted by, worker and then request.
    """
    count = 0
    for row in range(high):
        if ints[STATE, row] != RUNNING or not changed[ints[WORKER, row]]:
            continue
        age, predicted = age_of(ints, row), ints[PREDICTED, row]
        end = ints[CURVE_END, row] if expects else ints[LEAVE, row]
        if predicted < 0 or age - predicted >= every or end <= age:
            due_rows[count] = row
            order[count] = (ints[WORKER, row] << 44) | ints[REQUEST, row]
            count += 1
    return count


@jit
def believe(ints, rows, ages, answered):
    """A request whose client told its length is taken to end there, until it outlives that.

    Args:
        rows, ages: int64[N]. answered: float64[N, K], what the predictor said; changed.
    """
    for i in range(rows.size):
        left = ints[EXPECTED, rows[i]] - ages[i]
        if left > 0:
            for h in range(answered.shape[1]):
                answered[i, h] = 1.0 if h < left else 0.0


@jit
def believe_leaves(ints, rows, ages, horizon, leave):
    """As `believe`, for the ages at which requests are expected to have left, int64[N] `leave`."""
    for i in range(rows.size):
        expected = ints[EXPECTED, rows[i]]
        if expected > ages[i]:
            leave[i] = expected if expected - ages[i] <= horizon else NEVER


@jit
def keep(ints, rows, ages, answered, curves):
    """Keep the curves of these rows, predicted at these ages, where each ends, and where it has half ended, if it does: that
    is when the request is expected to leave. Returns whether they are curves.

    Args:
        answered: float64[N, K], as the predictor said. curves: float64[R, K], written.
    """
    for i in range(rows.size):
        if answered[i, 0] != 1.0:
            return False
        total = 0.0
        for h in range(answered.shape[1]):
            total += answered[i, h]
        if not total < np.inf:  # nan counts as well
            return False
    for i in range(rows.size):
        row, end, leave = rows[i], NEVER, NEVER
        for h in range(answered.shape[1]):
            curves[row, h] = answered[i, h]
            if end == NEVER and answered[i, h] <= 0.0:
                end = ages[i] + h
            if leave == NEVER and answered[i, h] < 0.5:
                leave = ages[i] + h
        ints[CURVE_END, row], ints[LEAVE, row] = end, leave
    return True


@jit
def ask(ints, rows, asked):
    """What a predictor is told of these rows, written to int64[5, N]: request, age, prompt, key, cap."""
    for i in range(rows.size):
        row = rows[i]
        age, cap = age_of(ints, row), ints[CAP, row]
        asked[0, i], asked[1, i], asked[2, i], asked[3, i] = (
            ints[REQUEST, row],
            age,
            ints[PROMPT, row],
            ints[KEY, row],
        )
        asked[4, i] = max(cap, age) if cap > 0 else 0  # an engine may count one token more than the client


@jit
def project_all(ints, high, load, running, extra, changed, counts, loads, projections):
    """Projected load of every worker, h = 0..H tokens ahead.

    Args:
        ints: int64[*, R], the table of requests, of which the first `high` rows were ever used.
        load, running: float64[G] KV tokens and int64[G] slots of running requests.
        extra: float64[G], foreign KV tokens, taken to stay as they are.
        changed: bool[G], workers to project; what stands of the others still holds.
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
        g, copies = ints[WORKER, row], ints[COPIES, row]
        if not changed[g]:
            continue
        left = ints[LEAVE, row] - age_of(ints, row)
        if left <= H:
            leaving = float(ints[PROMPT, row] + ints[PRODUCED, row] + left * copies)
            enter(counts[g], loads[g], left, leaving, 1)
            counts[g, left] += copies - 1
    for g in range(G):
        if changed[g]:
            project(load[g], running[g], 0, 1, 1.0, columns - 1, counts[g], loads[g], projections[g])
            for h in range(H + 1):
                projections[g, h] += extra[g]


@jit
def project_expected(ints, high, curves, growth, extra, changed, projections):
    """As `project_all` for policies that expect loads: each request counts with its chance to be there still.

    Args:
        curves: float64[R, K], chance to be there h tokens after the prediction, K > H + tokens between predictions.
        growth: float64[H+1], 0, 1, ..., H.
    """
    G, H = projections.shape[0], projections.shape[1] - 1
    between = steps_between(H)
    for g in range(G):
        if changed[g]:
            for h in range(H + 1):
                projections[g, h] = extra[g]
    for row in range(high):
        if ints[STATE, row] != RUNNING or not changed[ints[WORKER, row]]:
            continue
        since, load = age_of(ints, row) - ints[PREDICTED, row], float(ints[PROMPT, row] + ints[PRODUCED, row])
        copies = float(ints[COPIES, row])
        add_expected(load, growth, copies, between, curves[row], since, projections[ints[WORKER, row]])
    for g in range(G):
        if changed[g]:
            fill_between(projections[g])
