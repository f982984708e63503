"""Learns how long iterations last, and derives the token budget that meets a target for the time between tokens.

The policy's memory keeps when the last batch was formed (`SINCE`), as float64 bits, and its number of tokens (`RAN`). Five
fading float64 sums over iterations follow: of 1, tokens, seconds, tokens squared, and tokens times seconds. A line through
them gives the tokens whose iteration lasts as long as the target. Times are rounded to quanta of about a microsecond, and
tokens are rounded, not floored, so that the last bit of a clock rarely decides.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.request import I8
from evenstep.scheduling.batch import keep, kept

SINCE, RAN, COUNT, TOKENS, SECONDS, SQUARES, PRODUCTS = range(7)
#: Number of words kept in memory.
MEMORY = 7
#: Factor by which each iteration fades the sums before it, so that the last fifty or so count.
FADES = 0.98
#: Iterations before a line is fitted, and tokens that a batch may always run in addition to its decodes.
FIRST, LEAST = 8.0, 32
#: Least variance of tokens, as a share of their squares, for a line to be fitted: less is rounding error.
VARIES = 1e-12
#: Quanta of time in a second.
QUANTA = 1048576.0


@jit
def quantised(seconds: float) -> float:
    """Seconds rounded to the nearest quantum, 1 / `QUANTA` s, to absorb most rounding errors of clocks."""
    return np.floor(seconds * QUANTA + 0.5) / QUANTA


@jit
def fade(memory: I8, word: int, more: float) -> None:
    """Multiply the float64 sum at index `word` of memory by `FADES`, then add `more`."""
    keep(memory, word, FADES * kept(memory, word) + more)


@jit
def fade_line(memory: I8, first: int, tokens: float, seconds: float) -> None:
    """`fade` five sums from index `first` of memory on, adding 1, tokens, seconds, tokens squared and tokens x seconds."""
    fade(memory, first, 1.0)
    fade(memory, first + 1, tokens)
    fade(memory, first + 2, seconds)
    fade(memory, first + 3, tokens * tokens)
    fade(memory, first + 4, tokens * seconds)


@jit
def learned(memory: I8, now_s: float, running: int) -> None:
    """Add the last iteration, from the time that `note` stored to `now_s`, to the fading sums `COUNT` .. `PRODUCTS`.

    Does nothing if the last batch was empty, or if `running` (requests that hold memory now) is 0: the engine may have
    idled.
    """
    if memory[RAN] != 0 and running > 0:
        fade_line(memory, COUNT, float(memory[RAN]), quantised(now_s - kept(memory, SINCE)))


@jit
def line(memory: I8, first: int, fewest: float) -> tuple[float, float, float]:
    """Fit a line to the iterations in five fading sums: seconds of an iteration against its tokens.

    Args:
        first: index in memory of the first of the five sums that `fade_line` writes.
        fewest: faded number of iterations (the first sum) below which no line is fitted.

    Returns: seconds a token, seconds at zero tokens, mean seconds. All are 0 if iterations are too few or too alike, or if
        more tokens take no longer.
    """
    count, tokens, seconds = kept(memory, first), kept(memory, first + 1), kept(memory, first + 2)
    squares = kept(memory, first + 3)
    spread = count * squares - tokens * tokens
    rises = count * kept(memory, first + 4) - tokens * seconds
    if count < fewest or spread <= VARIES * count * squares or rises <= 0.0:
        return 0.0, 0.0, 0.0
    slope = rises / spread
    return slope, (seconds - slope * tokens) / count, seconds / count


@jit
def budget(memory: I8, target_s: float, decodes: int, most: int) -> int:
    """The number of tokens whose iteration lasts `target_s` seconds by the learned line; `most` if there is no line.

    It is at most `most`, and otherwise at least `decodes` (requests that decode) plus `LEAST`.
    """
    slope, flat, _ = line(memory, COUNT, FIRST)
    if slope == 0.0:
        return most
    fits = min(max(target_s - flat, 0.0) / slope, float(most))
    return min(most, max(int(fits + 0.5), decodes + LEAST))


@jit
def note(memory: I8, now_s: float, tokens: int) -> None:
    """Store in memory, for the next call of `learned`, that a batch of `tokens` is formed at `now_s`."""
    keep(memory, SINCE, now_s)
    memory[RAN] = tokens
