"""Tables of named columns, shared by plain methods and compiled functions.

A table's columns are declared once, as a `NamedTuple` of `Ints` and `Floats`. Plain methods read and write single numbers
through memory views; compiled functions get the same columns as arrays under the same names. A table that grows makes new
columns; code that still holds an old one keeps its memory alive.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import numpy as np

from evenstep import compiled
from evenstep.request import F8, I8

T = TypeVar("T", bound=tuple[Any, ...])


class Restored:
    """A part whose pickled state leaves out the attributes in `made_anew`; `_make_anew` sets them from the others."""

    made_anew: ClassVar[tuple[str, ...]]

    def _make_anew(self) -> None: ...

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.made_anew}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_anew()


class Columns(Generic[T]):
    """The columns of a table, all of the same length.

    Args:
        shape: a `NamedTuple` class with a field for each column, annotated `Ints` (int64) or `Floats` (float64).
        size: rows at first; every number is 0.

    Attributes:
        ints, floats: int64[integer columns, rows] and float64[float columns, rows], in the order of the fields.
        arrays: the columns as arrays, for work on whole columns.
        at: the columns as memory views, for single numbers: these are read and written about twice as fast.
        given: what a compiled function gets: `arrays`, or `at` where nothing is compiled.
    """

    def __init__(self, shape: type[T], size: int = 0) -> None:
        self.shape = shape
        hints = get_type_hints(shape, include_extras=True)
        self._is_int = tuple(hint == compiled.Ints for hint in hints.values())
        whole = sum(self._is_int)
        self.take(np.zeros((whole, size), np.int64), np.zeros((len(hints) - whole, size)))

    def take(self, ints: I8, floats: F8) -> None:
        """Replace all values of the table by int64[integer columns, rows] `ints` and float64[float columns, rows] `floats`.

        Contiguous arrays are kept, not copied. `arrays`, `at` and `given` are made anew, so a column that other code holds
        no longer belongs to the table.
        """
        self.ints, self.floats = np.ascontiguousarray(ints), np.ascontiguousarray(floats)
        whole, others = iter(self.ints), iter(self.floats)
        self.arrays: T = self.shape(*(next(whole if is_int else others) for is_int in self._is_int))
        self.at: Any = self.shape(*map(numbers, self.arrays))
        self.given: T = self.at if compiled.numba is None else self.arrays

    def __getstate__(self) -> dict[str, Any]:
        return {"shape": self.shape, "ints": self.ints, "floats": self.floats}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Columns.__init__(self, state["shape"])
        self.take(state["ints"], state["floats"])

    def __len__(self) -> int:
        return self.ints.shape[1]

    def add(self, rows: int) -> None:
        """Append `rows` rows to the table, filled with 0; the columns are made anew, as by `take`."""
        ints, floats = np.zeros((len(self.ints), rows), np.int64), np.zeros((len(self.floats), rows))
        self.take(np.concatenate([self.ints, ints], axis=1), np.concatenate([self.floats, floats], axis=1))

    def remove(self, row: int) -> None:
        """Delete the row with this index; the rows after it move up by one. The columns are made anew, as by `take`."""
        self.take(np.delete(self.ints, row, axis=1), np.delete(self.floats, row, axis=1))


def numbers(column: Any) -> Any:
    """A writable memory view of a contiguous int64 or float64 array, read as Python numbers; [] for an empty array."""
    if not column.size:
        return []
    return memoryview(column).cast("B").cast("q" if column.dtype == np.int64 else "d")
