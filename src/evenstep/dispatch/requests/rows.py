"""The requests a dispatcher knows, as columns: one row each, used again when the request has ended.

Columns are NumPy arrays for whole-table work (projections) and memory views of the same bytes for single numbers, which are
read and written about twice as fast through a view.
"""

from __future__ import annotations

from array import array
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenstep.compiled import ArrayOf, Table, jit
from evenstep.dispatch.requests.rows_layout import (
    COPIES,
    FLOATS,
    INTS,
    LEAVE,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    REQUEST,
    STATE,
    WORKER,
)
from evenstep.dispatch.steps.lockstep import NEW
from evenstep.dispatch.transitions import NEXT, Cause, State, impossible
from evenstep.request import F8, I8

_STATES = tuple(State)
_ENDS = Cause.ENDS  # a name of a module is found several times as fast as a member of an enum
_FRESH: I8 = np.zeros(INTS, np.int64)
_NEXT: I8 = np.array(NEXT)
#: The tables as fields of a struct.
IntTable: TypeAlias = Annotated[NDArray[np.int64], ArrayOf("int64", dimensions=2, writable=True)]
FloatTable: TypeAlias = Table
_FRESH[[WORKER, PREDICTED, LEAVE, COPIES]] = -1, -1, NEVER, 1


@jit
def may_move(ints: I8, row: int, cause: int) -> bool:
    """Whether the request in this row can go through this; see `transitions`."""
    return _NEXT[ints[STATE, row], cause] >= 0


@jit
def moves(ints: I8, row: int, cause: int) -> None:
    """`Rows.move` for compiled code, which asks `may_move` first."""
    ints[STATE, row] = _NEXT[ints[STATE, row], cause]


class Rows:
    """The table. Its arrays are replaced when it grows (`generation` changes).

    Args:
        room: rows at first.
    """

    def __init__(self, room: int = 1024) -> None:
        self.ints: I8 = np.repeat(_FRESH[:, None], room, 1)
        self.floats: F8 = np.zeros((FLOATS, room))
        self.free = list(range(room - 1, -1, -1))
        self.high = 0  # rows beyond were never used
        self.generation = 0
        self.by_request: dict[int, int] = {}
        self.wide = set[int]()  # rows of requests that want several slots
        self.step = array("q", [NEW]) * room  # of its group that it delivered last (`lockstep`)
        self._look()

    def take(self, request: int) -> int:
        """A free row for a request; it is clean, but for times, which are written before anybody reads them."""
        if not self.free:
            self._grow()
        row = self.free.pop()
        if row >= self.high:
            self.high = row + 1
        self.i[REQUEST][row] = request
        self.step[row] = NEW
        self.by_request[request] = row
        return row

    def place(self, row: int, worker: int) -> None:
        """It is on this worker now, -1 = on none."""
        self.i[WORKER][row] = worker
        self.step[row] = NEW

    def move(self, row: int, cause: Cause) -> None:
        """The request goes through this; see `transitions`."""
        states = self._states
        found = NEXT[states[row]][cause]
        if found < 0:
            raise impossible(states[row], cause)
        states[row] = found

    def give_back(self, row: int, request: int) -> None:
        """The request in this row ended."""
        self.move(row, _ENDS)
        del self.by_request[request]
        self.free.append(row)
        self.wide.discard(row)

    def clean(self, row: int) -> None:
        """Nothing is left of the request that ended in this row."""
        self.ints[:, row] = _FRESH

    def load(self, row: int) -> int:
        """KV tokens it has, or will have once it is admitted: prompt and what was produced."""
        return self.i[PROMPT][row] + self.i[PRODUCED][row]

    def age(self, row: int) -> int:
        """Tokens each of its copies produced."""
        return self.i[PRODUCED][row] // self.i[COPIES][row]

    def state(self, row: int) -> State:
        return _STATES[self._states[row]]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("i", "f", "_states")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._look()

    def _grow(self) -> None:
        room = self.ints.shape[1]
        self.ints = np.concatenate([self.ints, np.repeat(_FRESH[:, None], room, 1)], axis=1)
        self.floats = np.concatenate([self.floats, np.zeros_like(self.floats)], axis=1)
        self.free = list(range(2 * room - 1, room - 1, -1))
        self.step = self.step + array("q", [NEW]) * room
        self._look()
        self.generation += 1

    def _look(self) -> None:
        self.i: list[memoryview[int]] = [memoryview(column).cast("B").cast("q") for column in self.ints]  # type: ignore[assignment]
        self.f: list[memoryview[float]] = [memoryview(column).cast("B").cast("d") for column in self.floats]  # type: ignore[assignment]
        self._states = self.i[STATE]
