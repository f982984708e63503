"""Sends requests to their workers, many at once; the only place that changes the tables for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from evenstep import compiled
from evenstep.compiled import FLOAT, I1, INT, Floats, Ints, declared
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.log.histogram import add_wait, count
from evenstep.dispatch.requests.rows import NEVER, RequestColumns, may_move, moves
from evenstep.dispatch.transitions import Cause, State
from evenstep.request import I8
from evenstep.routing.view import HOLD

_DECODE_SENT = int(Cause.DECODE_SENT)
_POOLED = int(State.POOLED)


class Tables(NamedTuple):
    """The tables that `send` reads and writes.

    Args:
        rows, workers: the tables of requests and of workers.
        waits: sum and number of waits (`Waits.sums`).
        counts, bounds, sums: the histogram of waits in seconds, as of `Histogram.arrays`.
        tokens: int64[1], written by each call: tokens of the prompts that it sent.
    """

    rows: RequestColumns
    workers: WorkerColumns
    waits: Floats
    counts: Ints
    bounds: Floats
    sums: Floats
    tokens: Ints


@declared(None if INT is None else INT(compiled.struct(Tables), I1, I1, INT, I1, INT, FLOAT))
def send(tables: Tables, chosen: I8, worker: I8, size: int, pool: I8, legs: int, now_s: float) -> int:
    """Send the requests of a round that are not held: update the tables; the caller appends the commands.

    Args:
        chosen: int64, rows of the requests, at least `size` of them.
        worker: int64, place of each one's worker in the mirror, or `HOLD`. Its slots must suffice; they are not checked.
        size: requests of the round.
        pool: int64, written: rows that wait, in order. Those that still wait move to the front; the caller drops the rest.
        legs: number of the last upstream call (leg); the sent requests get the next numbers, in order.
        now_s: the time in seconds, from which waits are counted.

    Returns:
        Number of requests that were sent; -1 - i, and nothing changed, if request i may not be sent in its state, or its row
        or worker is out of range.
    """
    rows, workers = tables.rows, tables.workers
    for i in range(size):
        row, g = chosen[i], worker[i]
        if not 0 <= row < len(rows.state) or not HOLD <= g < len(workers.sent):
            return -1 - i
        if g != HOLD and not may_move(rows.state, row, _DECODE_SENT):
            return -1 - i
    sent = tables.tokens[0] = 0
    for i in range(size):
        row, g = chosen[i], worker[i]
        if g == HOLD:
            continue
        sent += 1
        moves(rows.state, row, _DECODE_SENT)
        copies, prompt, produced = rows.copies[row], rows.prompt[row], rows.produced[row]
        workers.reserved[g] -= rows.seated[row]
        workers.sent[g] += copies
        workers.came[g] += copies
        workers.sent_load[g] += prompt + produced
        rows.worker[row], rows.seated[row], rows.leg[row] = g, copies, legs + sent
        if rows.predicted[row] >= 0 or produced > 0:  # it was on another worker before
            rows.leave[row], rows.predicted[row], rows.base[row] = NEVER, -1, produced
        rows.sent_s[row] = now_s
        tables.tokens[0] += prompt
        wait_s: Any = now_s - rows.queued_s[row]
        add_wait(wait_s, tables.waits)
        count(wait_s, tables.counts, tables.bounds, tables.sums)
    left = 0
    for i in range(pool.size):
        row = pool[i]
        if 0 <= row < len(rows.state) and rows.state[row] == _POOLED:
            pool[left] = row
            left += 1
    return sent
