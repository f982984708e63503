"""Keyed random numbers: a draw is a pure function of (seed, stream, request id, draw).

Two policies that use the same key get the same random numbers (common random numbers), independent of other draws, their
order, and the process. The mixer is the finaliser of SplitMix64 applied to each word of the key in turn. `draws.uniform`
draws the same numbers in compiled code; it has its own file because it loads the compiler.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB
_TO_UNIT = 2.0**-53


@cache
def stream_number(stream: str) -> int:
    """The 63-bit number of a stream's name: the upper bits of the first 8 bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big") >> 1


def _mix(state: Any, word: Any) -> Any:
    """One step of the mixer: a 64-bit state and a word, ints or uint64[N], give the next state; arrays wrap silently."""
    z = ((word & _MASK) + state + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return z ^ (z >> 31)


@overload
def uniform(seed: int, stream: str, request_id: int, draw: int = 0) -> float: ...
@overload
def uniform(seed: int, stream: str, request_id: NDArray[np.int64], draw: int = 0) -> NDArray[np.float64]: ...
def uniform(seed: int, stream: str, request_id: int | NDArray[np.int64], draw: int = 0) -> float | NDArray[np.float64]:
    """A random number in [0, 1), always the same for the same arguments, on any machine.

    Args:
        stream: name of the drawing component, for instance ``"power-of-d"``; streams are independent.
        request_id: int, or int64[N] for N draws at once, which gives float64[N].
        draw: number of the draw of this stream for this request, from 0.
    """
    head = _mix(_mix(0, seed), stream_number(stream))
    is_array = isinstance(request_id, np.ndarray)
    word = np.ascontiguousarray(request_id, dtype=np.int64).view(np.uint64) if is_array else int(request_id)
    return (_mix(_mix(head, word), draw) >> 11) * _TO_UNIT
