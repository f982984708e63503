"""A token budget from a target for the time between tokens, learned from how long iterations have lasted.

The policy keeps, as bits of float64 in int64 words, when it last formed a batch (`SINCE`), of how many tokens (`RAN`), and
fading sums over iterations of 1, tokens, seconds, tokens squared, and tokens times seconds. A line through these says how
many tokens last as long as the target. Times are taken in whole quanta of a microsecond, and token counts from them are
rounded, not floored: the last bit of a clock decides nothing. `pace_kernel` is the compiled twin, equal in bits.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.request import I8

SINCE, RAN, COUNT, TOKENS, SECONDS, SQUARES, PRODUCTS = range(7)
#: Words that are kept.
MEMORY = 7
#: Share of what is known that an iteration leaves; some fifty iterations count.
FADES = 0.98
#: Iterations before a line is drawn, and tokens a batch may always run beside its decodes.
FIRST, LEAST = 8.0, 32
#: Share of the squares that tokens vary by at least where a line is drawn through them: less is rounding error.
VARIES = 1e-12
#: Quanta of time in a second.
QUANTA = 1048576.0


def quantised(seconds: float) -> float:
    """Seconds to the nearest quantum: equal for clocks that differ by rounding errors alone."""
    return math.floor(seconds * QUANTA + 0.5) / QUANTA


def learned(memory: I8, now_s: float) -> None:
    """Take note of how long the last iteration lasted; `memory` is changed."""
    if memory[RAN] == 0:
        return
    kept = memory.view(np.float64)
    tokens, seconds = float(memory[RAN]), quantised(now_s - float(kept[SINCE]))
    for word, more in (
        (COUNT, 1.0), (TOKENS, tokens), (SECONDS, seconds), (SQUARES, tokens * tokens), (PRODUCTS, tokens * seconds),
    ):  # fmt: skip
        kept[word] = FADES * float(kept[word]) + more


def line(memory: I8) -> tuple[float, float, float]:
    """The line through the iterations: seconds a token, seconds of none, mean seconds; zeros while none is known."""
    count, tokens, seconds, squares, products = memory.view(np.float64)[COUNT:MEMORY].tolist()
    spread = count * squares - tokens * tokens
    rises = count * products - tokens * seconds
    if count < FIRST or spread <= VARIES * count * squares or rises <= 0.0:
        return 0.0, 0.0, 0.0
    slope = rises / spread
    return slope, (seconds - slope * tokens) / count, seconds / count


def budget(memory: I8, target_s: float, decodes: int, most: int) -> int:
    """Tokens that last `target_s` seconds; `most` while that is not known, and never below the decodes and `LEAST`."""
    slope, flat, _ = line(memory)
    if slope == 0.0:
        return most
    fits = min(max(target_s - flat, 0.0) / slope, float(most))
    return min(most, max(int(fits + 0.5), decodes + LEAST))


def note(memory: I8, now_s: float, tokens: int) -> None:
    """Take note of the batch that is formed now."""
    memory.view(np.float64)[SINCE] = now_s
    memory[RAN] = tokens
