"""The requests a dispatcher knows, as columns: one row each, used again when the request has ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.dispatch.columns import Columns, Restored
from evenstep.dispatch.steps.state import NEW
from evenstep.dispatch.transitions import MAY_FOLLOW, State, impossible
from evenstep.request import I8

_STATES = tuple(State)
_FREE = int(State.FREE)  # a name of a module is found several times as fast as a member of an enum
_MAY_FOLLOW: I8 = np.array(MAY_FOLLOW)
#: `leave` of a request that does not leave inside the window; `predicted` of one without a prediction on its worker.
NEVER, UNPREDICTED = 1 << 60, -1


class RequestColumns(NamedTuple):
    """Facts known of each request, one column each; lengths are in tokens, times in seconds on the host's clock.

    A column has a value for every row, used or free; `Rows.by_request` has the rows in use.
    """

    state: Ints  # `transitions.State`
    request: Ints  # its number
    worker: Ints  # where it is, -1 = nowhere
    prompt: Ints  # tokens
    produced: Ints  # tokens of all its copies
    cap: Ints  # `max_tokens`
    key: Ints
    session: Ints
    request_class: Ints
    copies: Ints
    leave: Ints  # age (tokens of one copy) at which it is expected to have left
    predicted: Ints  # its age when that was predicted, or `UNPREDICTED`
    leg: Ints  # number of its present or last upstream call
    tries: Ints  # tries that failed
    base: Ints  # tokens it had when this leg began
    seated: Ints  # slots it holds
    charged: Ints  # number of its prefiller's last sample when its prompt was charged there
    expected: Ints  # tokens its client expects
    continues: Ints  # 1 if another engine can go on with its answer
    curve_end: Ints  # age from which its survival curve says that it is gone
    step: Ints  # number of the group's step that it delivered last (`steps.lockstep`)
    since_s: Floats  # when it arrived
    queued_s: Floats  # when it came into its queue
    sent_s: Floats
    first_s: Floats  # when it had its first token


# A new request gets these values; times (`*_s`) keep those of the row's former request until they are written.
_START = {"worker": -1, "predicted": UNPREDICTED, "leave": NEVER, "copies": 1, "step": NEW}
_FRESH: I8 = np.array([_START.get(name, 0) for name in RequestColumns._fields if not name.endswith("_s")])


@part
def may_move(state: I8, row: int, to: int) -> bool:
    """Whether the request in this row may move to the state `to`, by the table of `transitions`."""
    return _MAY_FOLLOW[state[row], to] != 0


@part
def moves(state: I8, row: int, to: int) -> None:
    """Move the request in this row to the state `to` in compiled code. Nothing is checked: ask `may_move` first."""
    state[row] = to


class Rows(Restored):
    """The table of requests, at first of `room` rows. If full it doubles: columns are replaced, `generation` grows by one.

    `at` has the columns (`RequestColumns`), `by_request` the row of each request, in order of arrival.
    """

    made_anew = ("at", "_states")

    def __init__(self, room: int = 1024) -> None:
        self.columns = Columns(RequestColumns, room)
        self.columns.ints[:] = _FRESH[:, None]
        self.free = list(range(room - 1, -1, -1))
        self.high = 0  # rows beyond were never used
        self.generation = 0
        self.by_request: dict[int, int] = {}
        self.wide = set[int]()  # rows of requests that want several slots
        self._make_anew()

    def take(self, request: int) -> int:
        """Take a free row for the request with this number; returns the row. The table grows if no row is free.

        All other columns have their initial values, except times, which may be those of an earlier request.
        """
        if not self.free:
            self._grow()
        row = self.free.pop()
        if row >= self.high:
            self.high = row + 1
        self.at.request[row] = request
        self.at.step[row] = NEW
        self.by_request[request] = row
        return row

    def place(self, row: int, worker: int) -> None:
        """Set the place in the mirror of the request's worker, -1 = on no worker; the column `step` becomes `NEW`."""
        self.at.worker[row] = worker
        self.at.step[row] = NEW

    def move(self, row: int, to: int) -> None:
        """Move the request in this row to the state `to`. Raises RuntimeError if `transitions.TABLE` does not allow that."""
        states = self._states
        if not MAY_FOLLOW[states[row]][to]:
            raise impossible(states[row], to)
        states[row] = to

    def give_back(self, row: int, request: int) -> None:
        """End the request in this row, and free the row. Its columns keep their values until `clean`, which must follow."""
        self.move(row, _FREE)
        del self.by_request[request]
        self.free.append(row)
        self.wide.discard(row)

    def clean(self, row: int) -> None:
        """Reset the row's integer columns; its times stay. Call it after `give_back`, which frees the row."""
        self.columns.ints[:, row] = _FRESH

    def load(self, row: int) -> int:
        """KV tokens of a request, now or once it is admitted: its prompt and the tokens that all its copies produced."""
        return self.at.prompt[row] + self.at.produced[row]

    def age(self, row: int) -> int:
        """Output tokens of each copy of the request so far: those of all copies over their number, rounded down."""
        return self.at.produced[row] // self.at.copies[row]

    def state(self, row: int) -> State:
        return _STATES[self._states[row]]

    def _grow(self) -> None:
        room = len(self.columns)
        self.columns.add(room)
        self.columns.ints[:, room:] = _FRESH[:, None]
        self.free = list(range(2 * room - 1, room - 1, -1))
        self._make_anew()
        self.generation += 1

    def _make_anew(self) -> None:
        """Refer to the present columns, after they were replaced."""
        self.at: Any = self.columns.at
        self._states = self.at.state
