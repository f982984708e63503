"""The rules of projections: which requests are due for a prediction, and projected loads."""

from __future__ import annotations

from typing import NamedTuple

from evenstep import compiled
from evenstep.compiled import F1, F2, I1, I2, INT, Floats, Ints, declared, part
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.requests.rows import NEVER, UNPREDICTED, RequestColumns
from evenstep.dispatch.transitions import State
from evenstep.predict.departures import enter, project
from evenstep.predict.expected import add_expected, fill_between, steps_between
from evenstep.request import F8, I8

#: In place of a number of due rows: no worker has changed since the last projection; `due` was not called for this round.
UNCHANGED, UNKNOWN = -1, -2
#: In `Seen.changes`: the worker was never projected.
NEVER_SEEN = -1
_RUNNING = int(State.RUNNING)
_REQUESTS, _WORKERS = compiled.struct(RequestColumns), compiled.struct(WorkerColumns)


@part
def age_of(requests: RequestColumns, row: int) -> int:
    """Output tokens that each copy of the request in this row has produced, rounded down."""
    copies = requests.copies[row]
    return requests.produced[row] if copies == 1 else requests.produced[row] // copies


class Seen(NamedTuple):
    """Columns of each worker at the last projection, [G] each, to find workers that changed since."""

    changes: Ints  # the workers' column at that time, written by `see`; may be `NEVER_SEEN`
    load: Floats  # the column at that time, written by `see`
    foreign_load: Floats  # the column at that time, written by `see`
    changed: Ints  # written by `due`: 1 for workers whose columns differ now, else 0


_SEEN = compiled.struct(Seen)


@declared(None if INT is None else INT(_REQUESTS, _WORKERS, INT, INT, INT, _SEEN, I1, I1))
def due(
    requests: RequestColumns,
    workers: WorkerColumns,
    high: int,
    every: int,
    expects: int,
    seen: Seen,
    due_rows: I8,
    order: I8,
) -> int:
    """List running requests whose prediction is missing, old or overtaken; returns how many, or `UNCHANGED`.

    Args:
        requests: the table of requests, of which the first `high` rows were ever used.
        workers: the mirror's columns. Requests on workers that have not changed have not got older, and are not listed.
        every: tokens of each copy after which a prediction is old.
        expects: 1 if a request is overtaken at the end of its curve, not at the age it was expected to leave at.
        seen: the workers' columns at the last projection; `changed` is written.
        due_rows: int64[R], written: the listed rows, ascending.
        order: int64[R], written: the key of each listed row to sort by, worker and then request.
    """
    count, changed, any_changed = 0, seen.changed, False
    for g in range(len(workers.group)):
        is_same = workers.changes[g] == seen.changes[g] and workers.load[g] == seen.load[g]
        changed[g] = 0 if is_same and workers.foreign_load[g] == seen.foreign_load[g] else 1
        any_changed = any_changed or changed[g] != 0
    if not any_changed:
        return UNCHANGED
    for row in range(high):
        if requests.state[row] != _RUNNING or changed[requests.worker[row]] == 0:
            continue
        age, predicted = age_of(requests, row), requests.predicted[row]
        end = requests.curve_end[row] if expects != 0 else requests.leave[row]
        if predicted == UNPREDICTED or age - predicted >= every or end <= age:
            due_rows[count] = row
            order[count] = (requests.worker[row] << 44) | requests.request[row]
            count += 1
    return count


@declared(None if INT is None else INT(_REQUESTS, I1, I1, F2, F2))
def keep(requests: RequestColumns, rows: I8, ages: I8, answered: F8, curves: F8) -> int:
    """Store these rows' predicted curves, and two ages read from them; returns 0.

    `curve_end` gets the first age at which the curve is 0, `leave` the first at which it is below 0.5; `NEVER` if the curve
    ends before that.

    Args:
        rows, ages: int64[N], rows of the requests, and output tokens of each copy at the prediction.
        answered: float64[N, K], the curves: chance to be still running h = 0..K-1 tokens from now.
        curves: float64[R, K], written in these rows.
    """
    for i in range(rows.size):
        row, end, leave = rows[i], NEVER, NEVER
        for h in range(answered.shape[1]):
            curves[row, h] = answered[i, h]
            if end == NEVER and answered[i, h] <= 0.0:
                end = ages[i] + h
            if leave == NEVER and answered[i, h] < 0.5:
                leave = ages[i] + h
        requests.curve_end[row], requests.leave[row] = end, leave
    return 0


@declared(None if INT is None else INT(_REQUESTS, I1, I2))
def ask(requests: RequestColumns, rows: I8, asked: I8) -> int:
    """Write the predictor's input for these rows to `asked`, int64[5, N]: request, age, prompt tokens, key, cap; returns 0.

    The cap is the client's `max_tokens`, at least the age; 0 = no cap.
    """
    for i in range(rows.size):
        row = rows[i]
        age, cap = age_of(requests, row), requests.cap[row]
        asked[0, i], asked[1, i] = requests.request[row], age
        asked[2, i], asked[3, i] = requests.prompt[row], requests.key[row]
        asked[4, i] = max(cap, age) if cap > 0 else 0  # an engine may count one token more than the client
    return 0


@part
def see(workers: WorkerColumns, seen: Seen) -> None:
    """Copy the workers' columns to `seen` at a projection, for `due` to compare with; `changed` stays."""
    for g in range(len(workers.group)):
        seen.changes[g], seen.load[g], seen.foreign_load[g] = workers.changes[g], workers.load[g], workers.foreign_load[g]


@declared(None if INT is None else INT(_REQUESTS, _WORKERS, INT, _SEEN, I2, F2, F2))
def project_all(
    requests: RequestColumns, workers: WorkerColumns, high: int, seen: Seen, counts: I8, loads: F8, projections: F8
) -> int:
    """Write the projected load (KV tokens) of every changed worker, h = 0..H tokens ahead; returns 0.

    Args:
        requests: the table of requests, of which the first `high` rows were ever used.
        workers: the mirror's columns. Foreign KV tokens are taken to stay as they are.
        seen: `changed` says which workers to project, the others' projections stay; its other columns are written.
        counts, loads: int64[G, M] and float64[G, M], working space; M a power of two above H.
        projections: float64[G, H+1], written.
    """
    G, columns = counts.shape
    H, changed = projections.shape[1] - 1, seen.changed
    see(workers, seen)
    for g in range(G):
        for column in range(columns):
            counts[g, column] = 0
            loads[g, column] = 0.0
    for row in range(high):
        if requests.state[row] != _RUNNING or requests.leave[row] == NEVER:
            continue
        g, copies = requests.worker[row], requests.copies[row]
        if changed[g] == 0:
            continue
        left = requests.leave[row] - age_of(requests, row)
        if left <= H:
            leaving = float(requests.prompt[row] + requests.produced[row] + left * copies)
            enter(counts[g], loads[g], left, leaving, 1)
            counts[g, left] += copies - 1
    for g in range(G):
        if changed[g] != 0:
            project(workers.load[g], workers.running[g], 0, 1, 1.0, counts[g], loads[g], projections[g])
            for h in range(H + 1):
                projections[g, h] += workers.foreign_load[g]
    return 0


@declared(None if INT is None else INT(_REQUESTS, _WORKERS, INT, F2, F1, _SEEN, F2))
def project_expected(
    requests: RequestColumns, workers: WorkerColumns, high: int, curves: F8, growth: F8, seen: Seen, projections: F8
) -> int:
    """Write the expected load (KV tokens) of every changed worker, h = 0..H tokens ahead; returns 0.

    Each request's load counts times its probability to run still. Some h are computed, the others interpolated.

    Args:
        requests, workers, high, seen, projections: as in `project_all`.
        curves: float64[R, K], chance to run still h tokens after the prediction; K > H + tokens between predictions.
        growth: float64[H+1], 0, 1, ..., H: tokens that a copy gains.
    """
    G, H = projections.shape[0], projections.shape[1] - 1
    between, changed = steps_between(H), seen.changed
    see(workers, seen)
    for g in range(G):
        if changed[g] != 0:
            for h in range(H + 1):
                projections[g, h] = workers.foreign_load[g]
    for row in range(high):
        if requests.state[row] != _RUNNING or changed[requests.worker[row]] == 0:
            continue
        since, load = age_of(requests, row) - requests.predicted[row], float(requests.prompt[row] + requests.produced[row])
        copies = float(requests.copies[row])
        add_expected(load, growth, copies, between, curves[row], since, projections[requests.worker[row]])
    for g in range(G):
        if changed[g] != 0:
            fill_between(projections[g])
    return 0
