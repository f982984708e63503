"""A token budget from a target for the time between tokens, learned from how long iterations have lasted.

The policy keeps float64 bits in int64 words: when it last formed a batch (`SINCE`) and of how many tokens (`RAN`). Fading
sums over iterations follow: of 1, tokens, seconds, tokens squared, and tokens times seconds. A line through these says
how many tokens last as long as the target. Times are taken in whole quanta of a microsecond, and token counts from them are
rounded, not floored: the last bit of a clock decides nothing.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.request import I8
from evenstep.scheduling.batch import keep, kept

SINCE, RAN, COUNT, TOKENS, SECONDS, SQUARES, PRODUCTS = range(7)
#: Words that are kept.
MEMORY = 7
#: Factor by which each iteration fades the sums before it, so that the last fifty or so count.
FADES = 0.98
#: Iterations before a line is drawn, and tokens a batch may always run besides its decodes.
FIRST, LEAST = 8.0, 32
#: Share of the squares that tokens vary by at least where a line is drawn through them: less is rounding error.
VARIES = 1e-12
#: Quanta of time in a second.
QUANTA = 1048576.0


@jit
def quantised(seconds: float) -> float:
    """Seconds rounded to the nearest quantum, 1 / `QUANTA` s: equal for clocks that differ by rounding errors alone."""
    return np.floor(seconds * QUANTA + 0.5) / QUANTA


@jit
def fade(memory: I8, word: int, more: float) -> None:
    """Multiply the float64 sum kept in a word of memory by `FADES`, then add `more`."""
    keep(memory, word, FADES * kept(memory, word) + more)


@jit
def fade_line(memory: I8, first: int, tokens: float, seconds: float) -> None:
    """Add an iteration to the five fading sums of a line (`COUNT` .. `PRODUCTS`), which begin at the word `first`."""
    fade(memory, first, 1.0)
    fade(memory, first + 1, tokens)
    fade(memory, first + 2, seconds)
    fade(memory, first + 3, tokens * tokens)
    fade(memory, first + 4, tokens * seconds)


@jit
def learned(memory: I8, now_s: float, running: int) -> None:
    """Learn the duration of the last iteration, from `note` to `now_s`, unless no request is `running` now.

    Without one the engine may have been idle. An empty last batch teaches nothing either. It updates the sums `COUNT` ..
    `PRODUCTS`.
    """
    if memory[RAN] != 0 and running > 0:
        fade_line(memory, COUNT, float(memory[RAN]), quantised(now_s - kept(memory, SINCE)))


@jit
def line(memory: I8, first: int, fewest: float) -> tuple[float, float, float]:
    """Fit a line to the iterations in five sums: seconds of an iteration against its tokens.

    Args:
        first: the word of the first of the five sums, as in `fade_line`.
        fewest: iterations before a line is drawn.

    Returns:
        Seconds a token, seconds at zero tokens, mean seconds; all 0 if the data are too few or too alike for a line, or if
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
    """The number of tokens whose iteration lasts `target_s` seconds by the learned line; `most` without a line.

    It is never above `most`, and otherwise never below `decodes` (requests that decode) and `LEAST` more.
    """
    slope, flat, _ = line(memory, COUNT, FIRST)
    if slope == 0.0:
        return most
    fits = min(max(target_s - flat, 0.0) / slope, float(most))
    return min(most, max(int(fits + 0.5), decodes + LEAST))


@jit
def note(memory: I8, now_s: float, tokens: int) -> None:
    """Remember that a batch of `tokens` is formed at `now_s`, for the next `learned`."""
    keep(memory, SINCE, now_s)
    memory[RAN] = tokens
