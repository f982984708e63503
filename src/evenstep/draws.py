"""`streams.uniform` for compiled code (kernels), with streams given by number."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_ZERO = np.uint64(0)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@jit
def _mix(state: np.uint64, word: np.uint64) -> np.uint64:
    z = state + _GOLDEN + word
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@jit
def head(seed: int, stream_number: int) -> np.uint64:
    """Mix seed and stream number into the state that `uniform_from` takes; all draws of one seed and stream share it."""
    return _mix(_mix(_ZERO, np.uint64(seed)), np.uint64(stream_number))


@jit
def uniform_from(head: np.uint64, request_id: int, draw: int) -> float:
    """The number in [0, 1) that `uniform` gives, from the state that `head` returned for the seed and the stream."""
    z = _mix(_mix(head, np.uint64(request_id)), np.uint64(draw))
    return np.float64(z >> _S11) * 2.0**-53


@jit
def uniform(seed: int, stream_number: int, request_id: int, draw: int) -> float:
    """A number in [0, 1), equal in bits to that of `streams.uniform`; for `stream_number` see `streams.stream_number`."""
    return uniform_from(head(seed, stream_number), request_id, draw)
