"""The life of a request: all states, which state may follow which, and what leads from one to the next.

A request is in exactly one state. `TABLE` is the only place that says which may follow. `Rows.move` writes the state, and
raises for any other; compiled code asks `rows.may_move` before it calls `rows.moves`. When a request has ended, its row is
`FREE` again. The host is told, unless it said so itself. docs/explanation/the-life-of-a-request.md shows the table.
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


_S = State

#: State -> each state that may follow, and what leads there: an event, a token or a decision, with the command that follows.
TABLE: dict[State, dict[State, str]] = {
    _S.FREE: {
        _S.FOR_PREFILLER: "`Arrived`, and the fleet has a prefiller that stays",
        _S.POOLED: "`Arrived`, and it has none",
    },
    _S.FOR_PREFILLER: {
        _S.PREFILLING: "a prefiller has room: `SendPrefill`",
        _S.POOLED: "`WorkerRemoved` for the last prefiller",
    },
    _S.PREFILLING: {
        _S.POOLED: "`PrefillDone`: its KV waits at the prefiller",
        _S.BACKING_OFF: "`Failed`, or `WorkerRemoved` without drain",
    },
    _S.POOLED: {
        _S.SEATING: "a round gives it only some of the slots it wants",
        _S.SENT: "a round gives it a worker: `SendDecode`, or `Continue` if it has tokens",
    },
    _S.SEATING: {
        _S.SENT: "the rest of its slots is free: `SendDecode`",
        _S.POOLED: "its worker leaves, is ejected, or has too few slots now",
    },
    _S.SENT: {
        _S.RUNNING: "the first token of this call; a prefiller's KV is not needed any more",
        _S.BACKING_OFF: "`Failed` or `WorkerRemoved` without drain, before any token; or handed back without a new one",
        _S.POOLED: "`Failed` or `WorkerRemoved` without drain, and earlier calls brought tokens",
    },
    _S.RUNNING: {_S.POOLED: "`Failed` or `WorkerRemoved` without drain: its output so far joins the next prompt"},
    _S.BACKING_OFF: {
        _S.FOR_PREFILLER: "its wait is over, and a prefiller must compute its prompt again",
        _S.POOLED: "its wait is over",
    },
}
for _state in set(State) - {_S.FREE}:
    TABLE[_state][_S.FREE] = "it ends: `Finished`, `ClientGone`, or with `Reject` or `Fail`"

#: The same as numbers: ``MAY_FOLLOW[state][next]`` is 1 if `next` may follow `state`, else 0.
MAY_FOLLOW = [[int(following in TABLE[state]) for following in State] for state in State]


def impossible(state: int, following: int) -> RuntimeError:
    """The error to raise for a change of state that `TABLE` does not list: a bug of the dispatcher."""
    return RuntimeError(f"a request that is {State(state).name} cannot become {State(following).name}")
