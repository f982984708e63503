"""How many tokens a batch runs while requests decode: up to where one more begins to cost time.

An iteration takes as long as the weights take to be read, however few tokens it runs; beyond some number each adds to it.
Prefill tokens below that knee are free, so what has to be prefilled in the long run is spread evenly over iterations,
not run in chunks as large as the engine takes. Nothing of the engine has to be known: fading sums are kept over *bare*
iterations (decodes alone), over *heavy* ones (with prefill tokens, and longer than bare ones by a quarter), whose line
meets the bare time at the knee, and over *light* ones near the knee, which show what its tokens really cost.

On some engines a batch of prefills and decodes takes longer than one of each. Sums over prefill tokens that ran alone and
beside decodes tell: where the former took less than nine tenths of what the latter added, prefills run alone (`apart`).
`knee_kernel` is the compiled twin, equal in bits.
"""

from __future__ import annotations

import numpy as np

from evenstep.request import I8
from evenstep.scheduling import pace

_FIRST = pace.MEMORY
#: Words: prefill tokens of the last batch, tokens prefilled and decoded so far, the knee; float64: seconds a prefill token
#: costs at the pace that is held (0 = none is held); sums over bare iterations
#: (1, seconds), heavy ones (1, tokens, seconds, squared tokens, products) and light ones (1, prefill tokens, seconds).
RAN_PREFILL, PREFILLED, DECODED, KNEE, PRICE = range(_FIRST, _FIRST + 5)
BARE, BARE_S, HEAVY, HEAVY_TOKENS, HEAVY_S, SQUARES, PRODUCTS, LIGHT, LIGHT_TOKENS, LIGHT_S = range(
    _FIRST + 5, _FIRST + 15
)
#: Words: batches with prefills; float64: fading sums of prefill tokens that ran alone, their seconds, of those beside
#: decodes, and the seconds these took longer than decodes alone.
PREFILLS, PURE_TOKENS, PURE_S, MIXED_TOKENS, MIXED_S = range(_FIRST + 15, _FIRST + 20)
#: Words that are kept, those of `pace` included.
MEMORY = _FIRST + 20
#: Share of a mixed prefill token's seconds below which prefills run apart. One batch with prefills in `PROBES` is a probe,
#: one in `SELDOM` times as many where apart takes longer.
PAYS, PROBES, SELDOM = 0.9, 64, 8
#: Bare iterations that a heavy one lasts at least, and light iterations before these count.
LONGER, KNOWN = 1.25, 8.0
#: Prefill tokens below the knee that make it worth stopping there, and that run at least.
LEAST = 16
#: Seconds a token costs at least.
FREE = 1e-9


def learned(memory: I8, now_s: float, running: int) -> None:
    """Take note of how long the last iteration lasted, before `pace.learned`; of none while nobody runs: time was idle."""
    if memory[pace.RAN] == 0 or running == 0:
        return
    kept = memory.view(np.float64)
    tokens, prefill = float(memory[pace.RAN]), float(memory[RAN_PREFILL])
    seconds = pace.quantised(now_s - float(kept[pace.SINCE]))
    _learn_mixing(memory, tokens, prefill, seconds)
    if prefill == 0.0:
        more = ((BARE, 1.0), (BARE_S, seconds))
    elif kept[BARE] == 0.0:
        return
    elif seconds > LONGER * float(kept[BARE_S]) / float(kept[BARE]):
        more = (
            (HEAVY, 1.0), (HEAVY_TOKENS, tokens), (HEAVY_S, seconds), (SQUARES, tokens * tokens),
            (PRODUCTS, tokens * seconds),
        )  # fmt: skip
    elif 2 * memory[pace.RAN] >= memory[KNEE]:
        more = ((LIGHT, 1.0), (LIGHT_TOKENS, prefill), (LIGHT_S, seconds))
    else:
        return
    for word, what in more:
        kept[word] = pace.FADES * float(kept[word]) + what


def _learn_mixing(memory: I8, tokens: float, prefill: float, seconds: float) -> None:
    """Take note of what prefill tokens took: alone, and beside decodes."""
    kept = memory.view(np.float64)
    if prefill > 0.0 and prefill == tokens:
        more = ((PURE_TOKENS, prefill), (PURE_S, seconds))
    elif prefill > 0.0 and kept[BARE] > 0.0:
        more = ((MIXED_TOKENS, prefill), (MIXED_S, seconds - float(kept[BARE_S]) / float(kept[BARE])))
    else:
        return
    for word, what in more:
        kept[word] = pace.FADES * float(kept[word]) + what


def apart(memory: I8) -> bool:
    """Whether prefills run without decodes, because a prefill token takes less time so; now and then the other, to learn."""
    pure, pure_s, mixed, mixed_s = memory.view(np.float64)[PURE_TOKENS : MIXED_S + 1].tolist()
    pays = pure_s * mixed < PAYS * mixed_s * pure
    period = PROBES * SELDOM if pure_s * mixed > mixed_s * pure else PROBES
    return pays != (memory[PREFILLS] % period == period - 1)


def note(memory: I8, prefill: int, decodes: int) -> None:
    """Take note of the batch that is formed now: its prefill tokens and its decodes."""
    memory[RAN_PREFILL] = prefill
    memory[PREFILLS] += prefill > 0
    memory[PREFILLED] += prefill
    memory[DECODED] += decodes


def budget(memory: I8, decodes: int, behind: int, most: int) -> int:
    """Tokens to run beside `decodes`, while `behind` more requests could prefill as well; `most` where that is better.

    At the knee a prefill takes longer, and so do those behind it; with as many tokens as possible every decode waits for it.
    Whichever delays fewer requests for less, a token, is chosen. What has to be prefilled for each decode in the long run is
    never held back.
    """
    memory[PRICE] = 0
    count, tokens, seconds, squares, products = memory.view(np.float64)[HEAVY : PRODUCTS + 1].tolist()
    bare, bare_s, light, prefill, light_s = memory.view(np.float64)[
        [BARE, BARE_S, LIGHT, LIGHT_TOKENS, LIGHT_S]
    ].tolist()
    spread = count * squares - tokens * tokens
    rises = count * products - tokens * seconds
    if decodes == 0 or bare < KNOWN or spread <= pace.VARIES * count * squares or rises <= 0.0:
        return most
    slope = rises / spread
    flat, bare_s = (seconds - slope * tokens) / count, bare_s / bare
    knee = min((bare_s - flat) / slope, float(most))
    memory[KNEE] = int(max(knee, 0.0) + 0.5)
    if knee < decodes + LEAST:
        return most
    chunk, slow_s = knee - decodes, bare_s
    if light >= KNOWN:
        chunk, slow_s = prefill / light, max(light_s / light, bare_s)
    fast_s, asks = flat + slope * most, 1.0 + behind
    slow = (asks * slow_s + decodes * (slow_s - bare_s)) / chunk
    fast = (asks * fast_s + decodes * (fast_s - bare_s)) / (most - decodes)
    if fast < slow:
        return most
    needed = decodes * (1.0 + float(memory[PREFILLED]) / float(max(memory[DECODED], 1)))
    held = max(knee, min(needed, float(most)))
    price = (slow_s - bare_s + slope * (held - knee)) / (held - decodes)
    memory.view(np.float64)[PRICE] = max(price, FREE)
    return min(most, int(held + 0.5))
