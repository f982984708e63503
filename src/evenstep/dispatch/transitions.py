"""The life of a request: all states, the causes that can move it in each, and the states that follow.

Rules of this file. A request is in exactly one state. `TABLE` is the only place that defines transitions: an unlisted
cause raises. When a request has ended, its row is `FREE` again; the host is told, unless it said so itself.

1. It arrives: to `FOR_PREFILLER` if the fleet has a prefiller that stays, else to `POOLED`. A refused one gets no row.
2. A prefiller has room: `PREFILLING`. Done: `POOLED`, its KV waits at the prefiller. If the last prefiller leaves before it
   has room: `POOLED`.
3. A round gives it a worker: `SENT`; one for several slots (`copies`) is `SEATING` first while it holds only some of them.
4. Its first token comes: `RUNNING`; the prefiller's budget is released.
5. The stream ends well: the request ends.
6. A leg fails before the request's first token, or an engine hands it back without a new one: `BACKING_OFF`, then back to
   the queue it needs.
7. Another leg fails and the stream can continue: `POOLED`; the prompt of its next call includes its output so far.
8. Its time is over, no try is left, or its client left or is at fault: the request ends, from any state.
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """The state of a request, as its row holds it.

    FREE: the row is unused. FOR_PREFILLER, POOLED: it waits for a prefiller, or for a worker. PREFILLING: a prefiller
    computes its prompt. SEATING: it waits for the rest of its slots. SENT, RUNNING: on a worker, before and after the call's
    first token. BACKING_OFF: it waits before its next try.
    """

    FREE = 0
    FOR_PREFILLER = 1
    PREFILLING = 2
    POOLED = 3
    SEATING = 4
    SENT = 5
    RUNNING = 6
    BACKING_OFF = 7


class Cause(IntEnum):
    """What moves a request from one state to the next; `TABLE` has the next state for each state and cause."""

    ARRIVES_FOR_PREFILL = 0
    ARRIVES_FOR_DECODE = 1
    PREFILL_SENT = 2
    PREFILLED = 3
    SEATED_IN_PART = 4
    DECODE_SENT = 5
    FIRST_TOKEN = 6
    BACKS_OFF = 7
    RETRIES_PREFILL = 8
    RETRIES_DECODE = 9
    CONTINUES = 10
    ENDS = 11


_S, _C = State, Cause

TABLE: dict[tuple[State, Cause], State] = {
    (_S.FREE, _C.ARRIVES_FOR_PREFILL): _S.FOR_PREFILLER,
    (_S.FREE, _C.ARRIVES_FOR_DECODE): _S.POOLED,
    (_S.FOR_PREFILLER, _C.PREFILL_SENT): _S.PREFILLING,
    (_S.FOR_PREFILLER, _C.RETRIES_DECODE): _S.POOLED,  # no prefiller is left
    (_S.PREFILLING, _C.PREFILLED): _S.POOLED,
    (_S.PREFILLING, _C.BACKS_OFF): _S.BACKING_OFF,
    (_S.POOLED, _C.SEATED_IN_PART): _S.SEATING,
    (_S.POOLED, _C.DECODE_SENT): _S.SENT,
    (_S.SEATING, _C.DECODE_SENT): _S.SENT,
    (_S.SEATING, _C.RETRIES_DECODE): _S.POOLED,  # its worker left or was ejected before it had all its slots
    (_S.SENT, _C.FIRST_TOKEN): _S.RUNNING,
    (_S.SENT, _C.BACKS_OFF): _S.BACKING_OFF,
    (_S.SENT, _C.CONTINUES): _S.POOLED,  # stopped again before the continuation's first token
    (_S.RUNNING, _C.CONTINUES): _S.POOLED,
    (_S.BACKING_OFF, _C.RETRIES_PREFILL): _S.FOR_PREFILLER,
    (_S.BACKING_OFF, _C.RETRIES_DECODE): _S.POOLED,
} | {(state, _C.ENDS): _S.FREE for state in State if state is not State.FREE}

#: The same as numbers: ``NEXT[state][cause]`` is the next state, -1 where the cause is impossible.
NEXT = [[int(TABLE.get((state, cause), -1)) for cause in Cause] for state in State]


def impossible(state: int, cause: Cause) -> RuntimeError:
    """The error to raise for a state and cause that `TABLE` does not list: a bug of the dispatcher."""
    return RuntimeError(f"a request that is {State(state).name} cannot go through {cause.name}")
