"""Waits by prompt size, to see whether requests with short or long prompts pay for the load balance."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.request import F8, I8

_BITS = 6  # prompts up to 64 tokens have a bin each; above, a bin is at most 1/64 of its size wide
_SHIFT = 52 - _BITS
_FIRST = int(np.float64(1.0).view(np.int64)) >> _SHIFT
_BINS = 64 << _BITS  # enough for every int64
FIFTHS = 5


class WaitsBySize:
    """Mean and longest wait in each fifth of the requests, sorted by prompt size; memory does not grow with the run.

    Requests are counted in bins: one for each prompt size up to 64 tokens, and above that bins of at most 1/64 of their
    size. A bin is never split between fifths, so a fifth may hold more or fewer than a fifth of the requests.
    """

    def __init__(self) -> None:
        self._count: I8 = np.zeros(_BINS, np.int64)
        self._sum: F8 = np.zeros(_BINS)
        self._oldest: F8 = np.zeros(_BINS)
        self._shortest, self._longest = 1 << 62, 0

    def add(self, prompt_tokens: I8, wait_s: F8) -> None:
        """Add requests, in any order: int64[N] prompt tokens, each >= 1, and float64[N] waits, seconds."""
        bins = (prompt_tokens.astype(np.float64).view(np.int64) >> _SHIFT) - _FIRST
        seen = np.bincount(bins)
        self._count[: seen.size] += seen
        self._sum[: seen.size] += np.bincount(bins, weights=wait_s)
        np.maximum.at(self._oldest, bins, wait_s)
        self._shortest = min(self._shortest, int(prompt_tokens.min(initial=self._shortest)))
        self._longest = max(self._longest, int(prompt_tokens.max(initial=self._longest)))

    def fifths(self) -> list[dict[str, Any]]:
        """One dict for each fifth of the requests so far, shortest prompts first; an empty list without requests.

        Keys: ``prompt_tokens_from`` and ``prompt_tokens_to`` (both included), ``requests``, ``mean_wait_s``,
        ``oldest_wait_s`` (the longest). An empty fifth, which a bin with more than a fifth of the requests causes, has none.
        """
        present = np.flatnonzero(self._count)
        count = self._count[present]
        middle = np.cumsum(count) - 0.5 * count
        fifth = (middle * FIFTHS / count.sum()).astype(np.int64)
        rows: list[dict[str, Any]] = []
        for number in range(FIFTHS):
            bins = present[fifth == number]
            if bins.size == 0:
                continue
            requests = int(self._count[bins].sum())
            rows.append(
                {
                    "prompt_tokens_from": max(_lower(int(bins[0])), self._shortest),
                    "prompt_tokens_to": min(_lower(int(bins[-1]) + 1) - 1, self._longest),
                    "requests": requests,
                    "mean_wait_s": float(self._sum[bins].sum()) / requests,
                    "oldest_wait_s": float(self._oldest[bins].max()),
                }
            )
        return rows


def _lower(number: int) -> int:
    """The fewest prompt tokens that fall into the bin with this number."""
    return int(np.ceil(np.int64((number + _FIRST) << _SHIFT).view(np.float64)))
