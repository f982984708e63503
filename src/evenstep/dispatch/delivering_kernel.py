# pyright: basic
"""The compiled part of `delivering`: chunks that are neither the first of their step nor the last."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import array_at, jit
from evenstep.dispatch.lockstep import AHEAD
from evenstep.dispatch.mirror_layout import FLOATS, GROUP, INTS, LOAD
from evenstep.dispatch.rows_layout import INTS as ROW_INTS
from evenstep.dispatch.rows_layout import PRODUCED, WORKER

#: What `table` holds: how many rows, workers and groups there are, then addresses of arrays: rows int64[INTS, R], the
#: step each delivered last int64[R], workers int64[INTS, G] and float64[FLOATS, G], and of `lockstep` step, delivered,
#: expected, counts_tokens, early, folds int64[Q], several int64[Q, AHEAD], seen_s float64[Q], several_s float64[Q, AHEAD].
ROWS, WORKERS, GROUPS, FIRST = range(4)
ARRAYS = 13
PLACES = FIRST + ARRAYS


@jit
def deliver(told, at, count, now_s, table):
    """Chunks from `at` on, as `Delivering.produced` counts them, up to the first one that may begin or end a step.

    Args:
        told: int64[2 n], the row of each chunk, then the tokens of each. count: how many there are. now_s: when they came.
        table: int64[PLACES], where everything is.

    Returns:
        The first chunk that was not counted.
    """
    R, G, Q = table[ROWS], table[WORKERS], table[GROUPS]
    rows, last = array_at(table[FIRST], ROW_INTS * R, np.int64), array_at(table[FIRST + 1], R, np.int64)
    workers, loads = (
        array_at(table[FIRST + 2], INTS * G, np.int64),
        array_at(table[FIRST + 3], FLOATS * G, np.float64),
    )
    step, delivered = array_at(table[FIRST + 4], Q, np.int64), array_at(table[FIRST + 5], Q, np.int64)
    expected, counts_tokens = array_at(table[FIRST + 6], Q, np.int64), array_at(table[FIRST + 7], Q, np.int64)
    early, folds = array_at(table[FIRST + 8], Q, np.int64), array_at(table[FIRST + 9], Q, np.int64)
    several, seen_s = (
        array_at(table[FIRST + 10], Q * AHEAD, np.int64),
        array_at(table[FIRST + 11], Q, np.float64),
    )
    several_s = array_at(table[FIRST + 12], Q * AHEAD, np.float64)
    while at < count:
        row, tokens = told[at], told[told.size // 2 + at]
        worker = rows[WORKER * R + row]
        group = workers[GROUP * G + worker]
        is_usual = last[row] + 1 == step[group] and 0 < delivered[group] < expected[group] - 1
        ahead = tokens - 1 if counts_tokens[group] != 0 else 0
        if not is_usual or ahead > early[group] or ahead >= AHEAD:
            break
        if ahead > 0:
            several[group * AHEAD + ahead] += 1
            several_s[group * AHEAD + ahead] = now_s
            folds[group] = 1
        last[row] += 1 + ahead
        delivered[group] += 1
        seen_s[group] = now_s
        rows[PRODUCED * R + row] += tokens
        loads[LOAD * G + worker] += tokens
        at += 1
    return at
