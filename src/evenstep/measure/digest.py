"""The digest of a run, a SHA-256. Two runs share it exactly if the facts below are equal.

It covers little-endian int64 rows (request id, worker, admission step, completion step) in order of request id, and then the
eight bytes of the final clock, a float64. Energy, percentiles and plots are not part of it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstep.measure.records import RequestTable
from evenstep.request import I8

_ROW = 4  # int64 words a request
_LITTLE = np.dtype("<i8")


class StreamingDigest:
    """Computes the digest of a run from requests in any order, for instance as they complete; it equals `digest` of all.

    A row is hashed once the rows of all smaller request ids, from 0 on, have been hashed. Until then it is kept in memory.
    Ids that were never added are skipped at the end.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._next = 0  # smallest id not hashed yet; it lives at _next % capacity
        self._rows = np.zeros((1024, _ROW), _LITTLE)
        self._present = np.zeros(1024, np.bool_)
        self._held = 0

    def add(self, request_id: I8, worker: I8, admitted_step: I8, finished_step: I8) -> None:
        """Add a chunk of completed requests: int64[N] each, ids >= 0 in any order. Values are copied, and N may be 0.

        Raises: ValueError if an earlier call had one of the ids. An id given twice in one call makes `finish` raise.
        """
        if request_id.size == 0:
            return
        if int(request_id.min()) < self._next:
            raise ValueError(f"request {int(request_id.min())} completed twice")
        self._reserve(int(request_id.max()) - self._next + 1)
        slot = request_id & (self._present.size - 1)
        if self._present[slot].any():
            raise ValueError("a request completed twice")
        for column, values in enumerate((request_id, worker, admitted_step, finished_step)):
            self._rows[slot, column] = values
        self._present[slot] = True
        self._held += request_id.size
        self._advance()

    def finish(self, final_clock_s: float) -> str:
        """Return the digest, 64 hexadecimal digits; call it once, at the end. Raises ValueError if an id was given twice."""
        mask = self._present.size - 1
        waiting = np.flatnonzero(np.roll(self._present, -(self._next & mask))) + self._next
        if waiting.size != self._held:
            raise ValueError("a request completed twice")
        self._hash.update(_bytes(self._rows[waiting & mask]))
        self._held = 0
        self._hash.update(_bytes(np.array([final_clock_s], "<f8")))
        return self._hash.hexdigest()

    def _advance(self) -> None:
        """Hash the rows from the smallest id not yet hashed up to the first missing one, and free their places."""
        capacity = self._present.size
        while self._held:
            start = self._next & (capacity - 1)
            ready = self._present[start:]
            count = int(ready.argmin()) if not ready.all() else ready.size
            if count == 0:
                return
            self._hash.update(_bytes(self._rows[start : start + count]))
            self._present[start : start + count] = False
            self._next += count
            self._held -= count

    def _reserve(self, span: int) -> None:
        """Enlarge the ring buffers if needed, to hold `span` ids from the next one to hash on; sizes are powers of two."""
        old = self._present.size
        if span <= old:
            return
        new = 1 << (span - 1).bit_length()
        ids = self._next + np.arange(old)
        rows, present = np.zeros((new, _ROW), _LITTLE), np.zeros(new, np.bool_)
        rows[ids & (new - 1)] = self._rows[ids & (old - 1)]
        present[ids & (new - 1)] = self._present[ids & (old - 1)]
        self._rows, self._present = rows, present


def digest(request_id: I8, worker: I8, admitted_step: I8, finished_step: I8, final_clock_s: float) -> str:
    """SHA-256 of a run, 64 hexadecimal digits, from int64[N] columns, rows in any order; ids must differ (not checked)."""
    rows: NDArray[np.int64] = np.empty((request_id.size, _ROW), _LITTLE)
    in_order = bool(np.all(request_id[1:] > request_id[:-1]))
    order = slice(None) if in_order else np.argsort(request_id, kind="stable")
    for column, values in enumerate((request_id, worker, admitted_step, finished_step)):
        rows[:, column] = values[order]
    taken = hashlib.sha256(_bytes(rows))
    taken.update(_bytes(np.array([final_clock_s], "<f8")))
    return taken.hexdigest()


def digest_of(requests: RequestTable, final_clock_s: float) -> str:
    """The digest of a run from its request table; the final clock is in seconds."""
    return digest(requests.request_id, requests.worker, requests.admitted_step, requests.finished_step, final_clock_s)


def combined(digests: tuple[str, ...]) -> str:
    """One digest for one or more runs: a single run's own, else SHA-256 of their hexadecimal texts joined in this order."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _bytes(values: NDArray[Any]) -> memoryview:
    """A view of the bytes of a contiguous array."""
    return values.reshape(-1).view(np.uint8).data
