"""Sums of each request class (or tenant): requests, tokens, waits, and its share of admissions until one class runs out."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.request import F8, I8

_BINS = 128  # of admissions over time; the span they cover doubles whenever a later admission comes
_FIRST_SPAN_S = 2.0**-20


class ByClass:
    """Sums requests, output tokens, waits and admissions of completed requests by class.

    By the end of a run all requests are served, so a class's share of all admissions only repeats its share of the trace.
    ``admitted_share`` counts admissions until the first class has admitted its last request, a time known within 1/64 of the
    run. Memory grows with the number of classes only.
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
        """Add N >= 1 completed requests, in any order: int64[N] columns, float64[N] clock at admission and wait, seconds."""
        self._make_room(request_class, float(admitted_s.max()))
        row = np.searchsorted(self._classes, request_class)
        count = self._classes.size
        self._requests += np.bincount(row, minlength=count)
        np.add.at(self._tokens, row, output_tokens)
        self._wait_s += np.bincount(row, weights=wait_s, minlength=count)
        np.maximum.at(self._oldest_s, row, wait_s)
        np.add.at(self._admitted, (row, (admitted_s * (_BINS / self._span_s)).astype(np.int64)), 1)

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each class seen so far, lowest number first; an empty list before the first request.

        Keys: ``request_class``, ``requests``, ``output_tokens``, ``mean_wait_s``, ``oldest_wait_s`` (the longest) and
        ``admitted_share``, of all admissions until the first class runs out; the shares of all classes sum to 1.
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
        """Add zero rows for new classes, and double the time that the admission bins cover until it includes `latest_s`."""
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
