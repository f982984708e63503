"""Figures of each class or tenant: requests, waits, and its share of admissions until one class has no request left."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.request import F8, I8

_BINS = 128  # of admissions over time; the span they cover doubles whenever a later admission comes
_FIRST_SPAN_S = 2.0**-20


class ByClass:
    """Sums requests, output tokens, waits and admissions by class; memory grows with the number of classes only.

    A finite run serves all requests in the end, so a class's share of the whole run is only its share of the trace. What the
    policy gave each class shows while all classes still have requests. ``admitted_share`` therefore counts admissions until
    one class has its last; that time is known within 1/64 of the run.
    """

    def __init__(self) -> None:
        self._classes: I8 = np.zeros(0, np.int64)
        self._requests: I8 = np.zeros(0, np.int64)
        self._tokens: I8 = np.zeros(0, np.int64)
        self._wait_s: F8 = np.zeros(0)
        self._oldest_s: F8 = np.zeros(0)
        self._admitted: I8 = np.zeros((0, _BINS), np.int64)
        self._span_s = _FIRST_SPAN_S  # covered by all bins together

    def add(self, request_class: I8, output_tokens: I8, admitted_s: F8, wait_s: F8) -> None:
        """Count N >= 1 completed requests, in any order; the arrays, int64[N] and float64[N] seconds, are not kept."""
        self._make_room(request_class, float(admitted_s.max()))
        row = np.searchsorted(self._classes, request_class)
        count = self._classes.size
        self._requests += np.bincount(row, minlength=count)
        np.add.at(self._tokens, row, output_tokens)
        self._wait_s += np.bincount(row, weights=wait_s, minlength=count)
        np.maximum.at(self._oldest_s, row, wait_s)
        np.add.at(self._admitted, (row, (admitted_s * (_BINS / self._span_s)).astype(np.int64)), 1)

    def rows(self) -> list[dict[str, Any]]:
        """One dict a class seen so far, lowest number first; empty before the first request.

        Keys: ``request_class``, ``requests``, ``output_tokens``, ``mean_wait_s``, ``oldest_wait_s`` (the longest),
        ``admitted_share`` (in [0, 1], up to the time that the class describes; the shares add up to 1).
        """
        if self._classes.size == 0:
            return []
        last = _BINS - 1 - np.argmax(self._admitted[:, ::-1] > 0, axis=1)
        shared = self._admitted[:, : int(last.min()) + 1].sum(axis=1)
        return [
            {
                "request_class": int(self._classes[i]),
                "requests": int(self._requests[i]),
                "output_tokens": int(self._tokens[i]),
                "admitted_share": int(shared[i]) / int(shared.sum()),
                "mean_wait_s": float(self._wait_s[i]) / int(self._requests[i]),
                "oldest_wait_s": float(self._oldest_s[i]),
            }
            for i in range(self._classes.size)
        ]

    def _make_room(self, request_class: I8, latest_s: float) -> None:
        """A row for every class, and bins up to the latest admission."""
        known = np.union1d(self._classes, request_class)
        if known.size > self._classes.size:
            place = np.searchsorted(known, self._classes)
            for name in ("_requests", "_tokens", "_wait_s", "_oldest_s", "_admitted"):
                old = getattr(self, name)
                new = np.zeros((known.size, *old.shape[1:]), old.dtype)
                new[place] = old
                setattr(self, name, new)
            self._classes = known
        while latest_s >= self._span_s:
            self._span_s *= 2.0
            halves = self._admitted.reshape(known.size, _BINS // 2, 2).sum(axis=2)
            self._admitted = np.hstack([halves, np.zeros_like(halves)])
