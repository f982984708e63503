"""How the engine simulator's state is laid out: one struct of arrays that the plain and the compiled loop share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.cost.batch import FEATURES
from evenstep.measure.quantiles import BINS
from evenstep.request import F8, I8
from evenstep.scheduling.view import UNLIMITED

# state_i
(
    ITERATION, COMING, RUNS, FIRST, WAITS, TABLE_ROWS, EVICTED_ALL, WASTED_ALL, FINISHED, ASKED, DETAIL, FREE, PICKS,
    GAPS, MOVED, PREFILL_ALL, DECODE_ALL, UNUSED, KEPT_FIRST, KEPT_LAST, KNOWN, FORMED,
) = range(22)  # fmt: skip
STATE_I = 22
# state_f; the last three only of an engine that is one rank of several: seconds its batch takes beside the law, seconds it
# is told its step lasts, and when its policy wants to be asked again
NOW, GAP_SUM, GAP_MAX, UNTIL, BUSY, SEEN, BESIDE_S, STEP_S, WAKE_S = range(9)
STATE_F = 9
# numbers of the engine: int64, float64
NUMBERS_I = 14
(
    BUDGET, LIMIT, CAPACITY, BLOCK, OVERFLOW, LAG, HOLD, CLASSES, SEED, ASKS, KEEPS, AHEAD, IS_RANK, RESIDENTS,
) = range(NUMBERS_I)  # fmt: skip
SWAP_A, SWAP_B, DROP_A, DROP_B, OVERHEAD = range(5)
RECOMPUTE, RESTART, SWAP, NEVER = range(4)
# hidden: int64[9, n]; the last two are no rows of requests but the free memory that still holds KV, oldest first: blocks
# KEPT_FIRST..KEPT_LAST - 1, whose they were and how many
OUTPUT, ATTAINED, FIRST_ITERATION, LAST_ITERATION, WASTED, MARK, KEPT_AT, KEPT_ROW, KEPT_BLOCKS = range(9)
# times: float64[*, n]
KEY, SCHEDULED_S, FIRST_TOKEN_S, LAST_TOKEN_S, FINISHED_S = range(5)
# the table of iterations: int64[10, cap] and float64[2, cap]
(
    T_TOKENS, T_PREFILL, T_REQUESTS, T_DECODES, T_KV_BATCH, T_KV_HELD, T_RUNNING, T_WAITING, T_EVICTED, T_PRODUCED,
) = range(10)  # fmt: skip
TABLE_I = 10
T_START, T_SECONDS = range(2)
# what the loop stopped for
DONE, TABLE_FULL, ASK, HOLDS_FOR_EVER, STOPPED = range(5)
# what one rank of several stops for beside: a batch is formed and waits for its seconds, it has run, or there is none
HAS_FORMED, HAS_RUN, HAS_NONE = range(5, 8)
(
    BAD_POSITION, BAD_TOKENS, PICKED_TWICE, OVER_BUDGET, OVER_LIMIT, OVER_MEMORY, BAD_EVICTION, MAY_NOT_EVICT, BAD_ORDER,
    OVER_RESIDENTS,
) = range(10, 20)  # fmt: skip


@dataclass(slots=True, eq=False)
class EngineState:
    """Everything a run of the engine simulator holds; rows of a trace are columns here.

    Args:
        state_i, state_f: int64[22], float64[9], single numbers (this module's names).
        numbers_i, numbers_f: int64[14], float64[5], the engine's own.
        rows: int64[13, n], what a policy may see (`scheduling.view`).
        hidden: int64[9, n], what it may not.
        times: float64[5, n], seconds, and the queue's keys.
        arrival_s: float64[n].
        coming: int64[n], rows in order of arrival, equal times in order of key and row; the first `KNOWN` count.
        running, waiting: int64[n], rows; the queue starts at `FIRST`.
        finished: int64[n], rows in order of completion.
        arrived: int64[classes].
        gaps: int64[BINS], gaps between tokens by length, in the bins of `measure.quantiles.LogHistogram`.
        batch: float64[FEATURES], the batch under way.
    """

    state_i: I8
    state_f: F8
    numbers_i: I8
    numbers_f: F8
    rows: I8
    hidden: I8
    times: F8
    arrival_s: F8
    coming: I8
    running: I8
    waiting: I8
    finished: I8
    arrived: I8
    gaps: I8
    batch: F8

    @classmethod
    def empty(cls, requests: int, classes: int) -> EngineState:
        def ints(*shape: int) -> I8:
            return np.zeros(shape, np.int64, order="F")

        columns = max(
            requests, 2
        )  # a table of one column lies in both orders, and compiled loops take one alone
        return cls(
            ints(STATE_I), np.zeros(STATE_F), ints(NUMBERS_I), np.zeros(5), ints(13, columns), ints(9, columns),
            np.full((5, columns), np.nan, order="F"), np.zeros(requests), ints(requests), ints(requests), ints(requests),
            ints(requests), ints(classes), ints(BINS), np.zeros(FEATURES),
        )  # fmt: skip


def limited(value: int) -> int:
    """A limit as loops take it: 0 is none."""
    return value or UNLIMITED
