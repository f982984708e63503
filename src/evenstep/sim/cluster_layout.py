"""State of the compiled cluster simulator: two buffers, one of int64 and one of float64, and what stands where in them.

The loop takes two arrays in place of forty, so that stopping at a decision and going on costs next to nothing. Section
k of a buffer starts at the offset that the buffer's `offsets` list holds at k; both sides take their windows from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np

from evenstep.request import F8, I8

# Sections of the int buffer.
(
    SCALARS_I, WORKERS_I, LOADS, WORKER_INTS, GROUP_INTS, SLOT_INTS, FREE_STACK, BUCKETS, WAITING_I, WORKER_OUT,
    HEAP_I, CARRY_I, QUEUE_I, OUTAGES, LEAVES, MEMORY, SCRATCH_I, DUE, ENDED, STEP_OUT_I, DECISION_OUT_I, SAMPLE_I,
    SAMPLE_RUNNING, LOOK,
) = range(24)  # fmt: skip
# Sections of the float buffer.
(
    SCALARS_F, WORKERS_F, GROUP_FLOATS, SLOT_FLOATS, WAITING_F, HEAP_F, CARRY_F, QUEUE_F, PROJECTIONS, GROWTH,
    PARAMETERS, SCRATCH_F, DUE_F, COUNT_POWER, ROOT_TABLE, STEP_OUT_F, DECISION_OUT_F, SAMPLE_F,
    SAMPLE_LOAD, LOCAL_S, STEP_TIMES, CURVES, SAMPLE_LONGEST,
) = range(23)  # fmt: skip

# Scalars, int.
(
    PHASE, REQUESTS, WORKERS, GROUPS, HORIZON, SEED, ARRIVALS, POOL_TARGET, INSTANT, DEPTH, SCALE, DELTA, TOKENS_PER_STEP,
    PROFILE_KIND, RING_MASK, WINDOW_MASK, PREDICTION, LAW_KIND, KV_LIMITED, ENERGY, RECORD_DECISIONS, SLOTS_ALL, STRIDE,
    CURSOR, FIRST, WAITING, FREE_TOTAL, COMPLETED, RUNNING_ALL, DECISIONS, STEPS, HEAP_SIZE, HEAP_SEQUENCE, CARRIED,
    QUEUE_FREE, QUEUED_ALL, OUTAGES_LEFT, ADMITTED_NOW, WAITS, LOAD_STEPS, ACTIVE_STEPS, OUTPUT_TOKENS, RESTARTS, OVERLOADED,
    REQUEST_ROWS, STEP_ROWS, DECISION_ROWS, SAMPLES, DUE_COUNT, ERROR_WORKER, ERROR_KIND, SLOTS_MAX, SESSIONS_NEXT,
    REFRESH_EVERY, ERROR_AT, POOL_ROOM, HEAP_ROOM, CARRY_ROOM, QUEUE_ROOM, OUTAGE_ROWS, RECORD_ROOM,
    DECISION_ROOM, SAMPLE_ROOM, MEMORY_WORDS, PROJECTED, ROOT_SIZE,
    OVERLOADED_NOW, KEEP, LOOK_ROWS, SHORT, SPARE_SLOT, CURVE_STEPS, MAY_HOLD, HELD,
) = range(74)  # fmt: skip
#: Where the short loop finds the sections of both buffers, among the int scalars; and how many words those are.
OFFSETS_I, OFFSETS_F, SCALARS = 74, 100, 128
# Scalars, float.
(
    NOW, MEAN_WAIT, WAIT_SUM, UNIT, SLOPE, PREFILL_BASE, PREFILL_TOKEN, KV_TOKENS, KV_RESERVE, THINK, IDLE_W, SPAN_W, BOUND,
    FULL_POWER_S, LONGEST_SHARE,
) = range(15)  # fmt: skip

# Phases.
NEXT, COMPLETE, REVEAL, DECIDE, APPLY, START = range(6)
# Arrivals.
SATURATED, TIMED, USERS, SESSIONS = range(4)
# Why the loop came back.
RUNNING, DONE, DECISION, FLUSH, GROW, PREDICT, STUCK, BROKEN = range(8)
# What a step-time law is read from: one line through zero of the load, lines of the load, lines of load and longest.
ONE_LINE, LINES, LINES_OF_LONGEST = range(3)
# What is known of the coming steps: nothing, the truth, when a request leaves, or the chance that it is still there.
NO_PREDICTION, ORACLE, DEPARTURES, EXPECTED = range(4)
# What a broken decision broke.
UNKNOWN_WORKER, OVER_SLOTS, OVER_KV = 1, 2, 3

# Rows of GROUP_INTS; GROUP_FLOATS.
STEP, BUSY, BOUNDARY, GROWN, GROUP_RUNNING, GROUP_FIRST, GROUP_SIZE, GROUP_QUEUED, GROUP_ADMITTED = range(9)
END, OVERHEAD, STARTED = range(3)
# Rows of WORKER_INTS.
SLOTS_OF, UP, QUEUE_HEAD, QUEUE_TAIL, LONGEST_SLOT = range(
    5
)  # the last -1 where the next step has to look for it
WORKER_ROWS = 5
# Columns of SLOT_INTS; SLOT_FLOATS.
ROW, FOLLOWER, FINISH, ADMIT, LOAD0, DONE0, SLOT_RESTARTS, ON = range(8)  # one cache line
VISIBLE, ADMITTED, FIRST_TOKEN = range(3)  # the latter two only of a request that restarted, else -1
# Columns of LOOK, written where somebody looks ahead.
LEAVE, PREDICTED, IN_WINDOW = range(3)
# Rows of STEP_TIMES, a ring by step.
BEGAN, ENDED_AT = range(2)
# Columns of CARRY_I; CARRY_F: what a request that went back to the pool keeps.
C_ROW, C_DONE, C_RESTARTS = range(3)
C_ADMITTED, C_FIRST_TOKEN = range(2)
# Columns of QUEUE_I.
Q_ROW, Q_NEXT, Q_LOAD = range(3)

# Columns of the records of completed requests: one cache line each, integers first.
D_WORKER, D_ADMITTED_STEP, D_FINISHED_STEP, D_RESTARTS, D_VISIBLE, D_ADMITTED, D_FIRST_TOKEN, D_FINISHED = (
    range(8)
)
STEP_INTS, STEP_FLOATS = 6, 9
# The short loop (`short_loop_kernel`): a request's record is its admission step and worker in one word, and when it became
# visible; a slot is its worker and the slot that follows it in one word, and the load units it leaves with; a step's row.
S_PLACE, S_VISIBLE, S_SHIFT = 0, 1, 24
S_LINK, S_UNITS = 0, 1
NO_SLOT = (1 << S_SHIFT) - 1
SHORT_INTS, SHORT_FLOATS = 2, 7
NEVER = 1 << 60
ROOT_CELLS = 512  # cells of the root table in one octave
ROOT_OCTAVES = (-40, 24)  # powers of two it spans, in seconds


class Buffer:
    """One array with named sections; `window(k)` is section k in its shape, `sealed(k)` the same read-only."""

    def __init__(self, kind: Any, shapes: Mapping[int, tuple[int, ...]], unset: tuple[int, ...] = ()) -> None:
        self.shapes = dict(shapes)
        starts = np.cumsum([0, *(_length(self.shapes[k]) for k in sorted(self.shapes))])
        self.offsets: I8 = starts.astype(np.int64)
        self.data: Any = np.empty(int(starts[-1]), dtype=kind)
        for section in set(shapes) - set(
            unset
        ):  # records are written before they are read: their memory waits till then
            self.data[starts[section] : starts[section + 1]] = 0

    def window(self, section: int) -> Any:
        start = int(self.offsets[section])
        shape = self.shapes[section]
        return self.data[start : start + prod(shape)].reshape(shape)

    def sealed(self, section: int) -> Any:
        window = self.window(section).view()
        window.flags.writeable = False
        return window


def _length(shape: tuple[int, ...]) -> int:
    """Words a section takes: whole cache lines, so that sections do not share one."""
    return -(-prod(shape) // 8) * 8


@cache
def root_table(exponent: float) -> F8:
    """float64[cells + 1], x ** exponent at the knots of the root table: `ROOT_CELLS` equal cells in every octave.

    Linear between the knots it is within 1e-6 of the power, relatively, for exponents in 0..1.
    """
    low, high = ROOT_OCTAVES
    octave = np.repeat(np.arange(low, high), ROOT_CELLS)
    cell = np.tile(np.arange(ROOT_CELLS), high - low)
    knots = np.ldexp(1.0 + cell / ROOT_CELLS, octave)
    return np.append(knots, np.ldexp(1.0, high)) ** exponent
