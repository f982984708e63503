"""Addresses of arrays for compiled code, and their lengths, which the checked build verifies."""

from __future__ import annotations

import os
import weakref
from array import array
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

IS_CHECKED = os.environ.get("EVENSTEP_CHECKED") == "1"
_told: dict[int, tuple[int, int]] = {}  # bytes of each registered array, and its owner's id, by address
_address: dict[int, int] = {}  # of each of them, by its id


def placed(values: NDArray[Any] | array[Any]) -> int:
    """The address of an array, for a table of compiled code; the array must live as long as its entry in the table.

    The checked build remembers the array's length: only addresses requested here may be used.
    """
    if isinstance(values, array):
        address, count = values.buffer_info()
        size = count * values.itemsize
    else:
        address, size = int(values.ctypes.data), values.nbytes
    if IS_CHECKED:
        _remember(address, size, values)
    return address


def _remember(address: int, size: int, values: Any) -> None:
    """So many bytes may be used from an address on, as long as their owner lives."""
    owner = values
    while isinstance(owner, memoryview) or (isinstance(owner, np.ndarray) and owner.base is not None):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    known, number = _told.get(address), id(owner)
    if known is not None and known[1] == number:
        _told[address] = max(size, known[0]) if isinstance(owner, np.ndarray) else size, number
        return
    if isinstance(owner, array) and number in _address:  # it grew, and lies elsewhere now
        _told.pop(_address[number], None)
    _told[address], _address[number] = (size, number), address
    with suppress(TypeError):  # some owners cannot be watched: their bytes stay known
        weakref.finalize(owner, _forget, address, number)


def _forget(address: int, number: int) -> None:
    if _told.get(address, (0, 0))[1] == number:
        del _told[address]
    if _address.get(number) == address:
        del _address[number]


def is_inside(base: int, offset: int, size: int) -> int:
    """Whether bytes from an offset on lie in the array that begins at an address."""
    return size == 0 or (size > 0 and offset >= 0 and offset + size <= _told.get(base, (0,))[0])
