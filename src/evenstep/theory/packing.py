"""Schedules as starting times, and the two properties by which Interval scheduling compares them.

A request of prompt s and output o that starts at t holds s + k KV tokens in its k-th iteration, t + k - 1, for k = 1..o.
"""

from __future__ import annotations

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8


def occupied(starts: I8, prompt_tokens: I8, output_tokens: I8) -> I8:
    """KV tokens held in each iteration 0 .. T - 1, int64[T]; T is the first iteration at which all requests have ended.

    `starts`, int64[N], are the iterations in which the requests start; an InputError if one is below 0.
    """
    if starts.size and int(starts.min()) < 0:
        raise InputError("schedule", "starts", int(starts.min()), "iterations >= 0")
    held = np.zeros(int((starts + output_tokens).max(initial=0)), np.int64)
    for start, prompt, output in zip(starts.tolist(), prompt_tokens.tolist(), output_tokens.tolist(), strict=True):
        held[start : start + output] += prompt + np.arange(1, output + 1)
    return held


def total_latency(starts: I8, output_tokens: I8) -> int:
    """Iterations from iteration 0 to each request's end, summed over the requests; all count as arrived at 0."""
    return int((starts + output_tokens).sum())


def same_order(first: I8, second: I8) -> bool:
    """Whether no two requests start in opposite orders in two schedules; equal starts agree with any order.

    `first` and `second` are start iterations of the same requests, int64[N]. Source: Interval scheduling, Definition 8.1.
    """
    apart = np.subtract.outer(first, first) * np.subtract.outer(second, second)
    return bool((apart >= 0).all())


def is_delayed(second: I8, first: I8) -> bool:
    """Whether no request starts earlier in `second` than in `first`, int64[N] each (Interval scheduling, Definition 8.1)."""
    return bool((first <= second).all())


def optimally_packed(starts: I8, prompt_tokens: I8, output_tokens: I8, kv_tokens: int) -> bool:
    """Whether no request could start earlier without exceeding the memory, as Interval scheduling's Definition 8.3 has it.

    Each request is moved alone, to every iteration before its own start, back to the latest earlier start, inclusive. A
    request without a start before its own is not moved.

    Args:
        starts: int64[N], iteration in which each request starts.
        prompt_tokens, output_tokens: int64[N].
        kv_tokens: M, KV tokens of memory.

    Raises:
        InputError: the given schedule already exceeds the memory, or a start is below 0.
    """
    held = occupied(starts, prompt_tokens, output_tokens)
    if int(held.max(initial=0)) > kv_tokens:
        raise InputError("schedule", "kv_tokens", kv_tokens, f"at least {int(held.max())}, the most the schedule holds")
    for start, prompt, output in zip(starts.tolist(), prompt_tokens.tolist(), output_tokens.tolist(), strict=True):
        before = starts[starts < start]
        if not before.size:
            continue
        own = prompt + np.arange(1, output + 1)
        others = held.copy()
        others[start : start + output] -= own
        earlier = range(int(before.max()), start)
        if any(int((others[k : k + output] + own).max()) <= kv_tokens for k in earlier):
            return False
    return True
