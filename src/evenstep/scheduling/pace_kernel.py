# pyright: basic
"""A token budget from a target, compiled: the twin of `pace`, equal in bits."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.scheduling.pace import (
    COUNT,
    FADES,
    FIRST,
    LEAST,
    PRODUCTS,
    QUANTA,
    RAN,
    SECONDS,
    SINCE,
    SQUARES,
    TOKENS,
    VARIES,
)


@jit
def quantised(seconds):
    """Seconds to the nearest quantum."""
    return np.floor(seconds * QUANTA + 0.5) / QUANTA


@jit
def kept(memory, word):
    """A float64 that is kept as bits."""
    return np.int64(memory[word]).view(np.float64)


@jit
def fade(memory, word, more):
    """A fading sum with one more."""
    memory[word] = np.float64(FADES * kept(memory, word) + more).view(np.int64)


@jit
def learn(memory, now_s):
    """Take note of how long the last iteration lasted."""
    if memory[RAN] == 0:
        return
    tokens, seconds = float(memory[RAN]), quantised(now_s - kept(memory, SINCE))
    fade(memory, COUNT, 1.0)
    fade(memory, TOKENS, tokens)
    fade(memory, SECONDS, seconds)
    fade(memory, SQUARES, tokens * tokens)
    fade(memory, PRODUCTS, tokens * seconds)


@jit
def line(memory):
    """The line through the iterations: seconds a token, seconds of none, mean seconds; zeros while none is known."""
    count, tokens, seconds = kept(memory, COUNT), kept(memory, TOKENS), kept(memory, SECONDS)
    squares = kept(memory, SQUARES)
    spread = count * squares - tokens * tokens
    rises = count * kept(memory, PRODUCTS) - tokens * seconds
    if count < FIRST or spread <= VARIES * count * squares or rises <= 0.0:
        return 0.0, 0.0, 0.0
    slope = rises / spread
    return slope, (seconds - slope * tokens) / count, seconds / count


@jit
def budget(memory, target_s, decodes, most):
    """Tokens that last `target_s` seconds; `most` while that is not known."""
    slope, flat, _ = line(memory)
    if slope == 0.0:
        return most
    fits = min(max(target_s - flat, 0.0) / slope, float(most))
    return min(most, max(np.int64(fits + 0.5), decodes + LEAST))


@jit
def note(memory, now_s, tokens):
    """Take note of the batch that is formed now."""
    memory[SINCE] = np.float64(now_s).view(np.int64)
    memory[RAN] = tokens
